#include "src/base/futex.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace harmonaize {
namespace {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));
static_assert(std::atomic<uint32_t>::is_always_lock_free);

void Futex(const std::atomic<uint32_t>* word, int operation, uint32_t value,
           const timespec* timeout = nullptr) {
  syscall(SYS_futex, word, operation, value, timeout, nullptr, 0);
}

}  // namespace

void FutexWaitShared(const std::atomic<uint32_t>* word, uint32_t expected, uint64_t timeout_ns) {
  timespec timeout;
  timeout.tv_sec = static_cast<time_t>(timeout_ns / 1'000'000'000);
  timeout.tv_nsec = static_cast<long>(timeout_ns % 1'000'000'000);
  Futex(word, FUTEX_WAIT, expected, &timeout);
}

void FutexWakeAllShared(const std::atomic<uint32_t>* word) {
  FutexWakeShared(word, INT_MAX);
}

void FutexWakeShared(const std::atomic<uint32_t>* word, int most) {
  Futex(word, FUTEX_WAKE, static_cast<uint32_t>(most));
}

void FutexWaitPrivate(const std::atomic<uint32_t>* word, uint32_t expected) {
  Futex(word, FUTEX_WAIT_PRIVATE, expected);
}

void FutexWakeOnePrivate(const std::atomic<uint32_t>* word) {
  Futex(word, FUTEX_WAKE_PRIVATE, 1);
}

}  // namespace harmonaize

#include "perf/harness/watchdog.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

namespace harmonaize::perf {
namespace {

// Time for revoked calls and the other processes to report their own errors.
constexpr std::chrono::seconds kGrace{5};

}  // namespace

Watchdog::Watchdog(int timeout_s, std::vector<ncclComm_t> comms)
    : timeout_s_(timeout_s), comms_(std::move(comms)) {
  if (timeout_s_ > 0) thread_ = std::thread([this] { Watch(); });
}

Watchdog::~Watchdog() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Watchdog::Arm(std::string what) {
  if (timeout_s_ == 0) return;
  const std::lock_guard lock(mutex_);
  armed_ = true;
  what_ = std::move(what);
  deadline_ = std::chrono::steady_clock::now() + std::chrono::seconds(timeout_s_);
  changed_.notify_all();
}

void Watchdog::Disarm() {
  if (timeout_s_ == 0) return;
  const std::lock_guard lock(mutex_);
  armed_ = false;
}

void Watchdog::Watch() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return armed_ || stopping_; });
    if (stopping_) return;
    changed_.wait_until(lock, deadline_, [this] { return stopping_; });
    if (stopping_) return;
    // Disarmed, or armed again with a later deadline, while this thread slept.
    if (!armed_ || std::chrono::steady_clock::now() < deadline_) continue;
    break;
  }
  fmt::print(stderr, "# {} did not finish within {} s; revoking its communicators\n", what_,
             timeout_s_);
  std::fflush(stderr);
  fired_.store(true, std::memory_order_release);
  // Revoked in a thread of its own: if a daemon does not answer, this hangs as well.
  std::thread revoker([this] {
    for (ncclComm_t comm : comms_) ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT);
  });
  if (changed_.wait_for(lock, kGrace, [this] { return stopping_; })) {
    revoker.join();
    return;
  }
  fmt::print(stderr, "# a call is still blocked {} s later; ending the process\n", kGrace.count());
  std::fflush(stderr);
  _exit(1);
}

}  // namespace harmonaize::perf

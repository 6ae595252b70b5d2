#include "src/memory/fault_guard.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>

namespace harmonaize {

/// A signal handler searches the ranges, in any thread and at any moment, so they are never freed,
/// only reused. `version` is odd while one changes. A handler skips a changing range: the range of
/// its own fault is in use, and so does not change.
struct FaultGuard::Range {
  std::atomic<uint32_t> version{0};
  std::atomic<uintptr_t> first{0};
  std::atomic<size_t> bytes{0};  ///< 0: free.
  std::atomic<bool> lost{false};
  Range* next = nullptr;       ///< In the list of all; set before the range is put there.
  Range* next_free = nullptr;  ///< Guarded by the mutex.

  void Set(uintptr_t new_first, size_t new_bytes) {
    const uint32_t before = version.load(std::memory_order_relaxed);
    version.store(before + 1, std::memory_order_relaxed);
    // Release, with the acquire in Covers: a thread that sees one of these sees the odd version, or
    // a later one.
    first.store(new_first, std::memory_order_release);
    bytes.store(new_bytes, std::memory_order_release);
    version.store(before + 2, std::memory_order_release);
  }

  bool Covers(uintptr_t address) const {
    const uint32_t before = version.load(std::memory_order_acquire);
    const uintptr_t from = first.load(std::memory_order_acquire);
    const size_t size = bytes.load(std::memory_order_acquire);
    if (before % 2 != 0 || version.load(std::memory_order_relaxed) != before) return false;
    return address - from < size;
  }
};

namespace {

using Range = FaultGuard::Range;

// Release by the thread that adds a range, acquire by handlers.
std::atomic<Range*> all_ranges{nullptr};
// Release after a range's `lost`, acquire by threads that then look at the ranges.
std::atomic<uint64_t> losses{0};
std::atomic<int> loss_event{-1};
std::mutex mutex;
Range* free_ranges = nullptr;  // under the mutex
struct sigaction previous;

void TellLoss() {
  losses.fetch_add(1, std::memory_order_release);
  const int event = loss_event.load(std::memory_order_relaxed);
  const uint64_t one = 1;
  // An eventfd that is full has been told already.
  if (event >= 0 && write(event, &one, sizeof one) < 0) return;
}

bool Replace(uintptr_t address) {
  for (Range* range = all_ranges.load(std::memory_order_acquire); range != nullptr;
       range = range->next) {
    if (!range->Covers(address)) continue;
    const uintptr_t first = range->first.load(std::memory_order_relaxed);
    const uintptr_t piece = FaultGuard::PieceAround(address);
    const uintptr_t from = std::max(first, piece);
    const uintptr_t end = std::min(first + range->bytes.load(std::memory_order_relaxed),
                                   piece + FaultGuard::kPieceBytes);
    // Replaced in one step, so that other threads that use the range find the old memory or the
    // new. The system call is made directly: libraries that wrap mmap were not made for signal
    // handlers.
    const bool replaced =
        syscall(SYS_mmap, from, end - from, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != -1;
    // Relaxed: other threads learn of it with the end of the work that faulted.
    if (replaced) range->lost.store(true, std::memory_order_relaxed);
    if (replaced) TellLoss();
    return replaced;
  }
  return false;
}

void OnBusError(int /*signal*/, siginfo_t* information, void* /*context*/) {
  const int saved = errno;
  // If the fault is not in a guarded range, the access is repeated, and the previous handler deals
  // with it.
  if (!Replace(reinterpret_cast<uintptr_t>(information->si_addr))) {
    sigaction(SIGBUS, &previous, nullptr);
  }
  errno = saved;
}

Range* TakeRange() {
  if (free_ranges != nullptr) return std::exchange(free_ranges, free_ranges->next_free);
  auto* const range = new Range();
  range->next = all_ranges.load(std::memory_order_relaxed);
  all_ranges.store(range, std::memory_order_release);
  return range;
}

}  // namespace

Status FaultGuard::Install() {
  struct sigaction action {};
  action.sa_sigaction = OnBusError;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  if (sigaction(SIGBUS, &action, &previous) != 0) return ErrnoError(errno, "cannot handle SIGBUS");
  return Status::Ok();
}

FaultGuard::FaultGuard(std::byte* first, size_t bytes) {
  const std::lock_guard lock(mutex);
  range_ = TakeRange();
  range_->lost.store(false, std::memory_order_relaxed);
  range_->Set(reinterpret_cast<uintptr_t>(first), bytes);
}

bool FaultGuard::lost() const {
  return range_ != nullptr && range_->lost.load(std::memory_order_relaxed);
}

uint64_t FaultGuard::Losses() {
  return losses.load(std::memory_order_acquire);
}

void FaultGuard::TellLossesTo(int event) {
  loss_event.store(event, std::memory_order_relaxed);
}

void FaultGuard::Reset() {
  if (range_ == nullptr) return;
  const std::lock_guard lock(mutex);
  range_->Set(0, 0);
  range_->next_free = std::exchange(free_ranges, range_);
  range_ = nullptr;
}

}  // namespace harmonaize

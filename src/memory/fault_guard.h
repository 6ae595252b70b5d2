#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "src/base/status.h"

namespace harmonaize {

/// Keeps this process alive if pages of a mapping are not available: an access to one raises
/// SIGBUS, which would end the process. That happens to memory shared with a hostile, or unlucky,
/// process:
/// - it has a hole, and the kernel was told to fill none (MissingPages);
/// - a huge page file has a hole punched into it, and the host's pool has no page left to fill it;
/// - a memory module fails, and the kernel takes the page away.
/// While a range is guarded, such an access replaces the memory around it with zeroed memory of
/// this process, the access goes on with that, and lost() tells of it. Users of the memory check
/// lost() afterwards, and discard results.
///
/// The object may be handed from thread to thread with the mapping. It must be destroyed before the
/// range is unmapped, and while the memory is not in use.
class FaultGuard {
 public:
  /// Takes over SIGBUS for the whole process; faults outside of guarded ranges go to the previous
  /// handler. To be called once, before any range is guarded. Errors: kSystemError.
  static Status Install();

  /// Guards nothing.
  FaultGuard() = default;
  /// Guards [first, first + bytes), a whole mapping. Thread: any; not in a signal handler.
  FaultGuard(std::byte* first, size_t bytes);
  ~FaultGuard() { Reset(); }
  FaultGuard(FaultGuard&& other) noexcept : range_(std::exchange(other.range_, nullptr)) {}
  FaultGuard& operator=(FaultGuard&& other) noexcept {
    if (this != &other) {
      Reset();
      range_ = std::exchange(other.range_, nullptr);
    }
    return *this;
  }
  FaultGuard(const FaultGuard&) = delete;
  FaultGuard& operator=(const FaultGuard&) = delete;

  /// Returns whether pages were missing. A thread sees its own faults, and those of threads it has
  /// synchronized with.
  bool lost() const;
  /// Returns how many ranges were lost so far, in the whole process. A thread that has seen a
  /// number sees lost() of all ranges that it counts. Thread: any.
  static uint64_t Losses();
  /// Reports losses to this eventfd, too, so that work on a lost range can be ended early: until
  /// then it fills memory of this process. -1: to none. Thread: any.
  static void TellLossesTo(int event);

  void Reset();

  /// Bytes of memory around a fault that are replaced at once, aligned so: the kernel takes 50 ms
  /// for each GiB that is mapped there. It is a multiple of the largest huge pages that are mapped
  /// (kLargestForeignPage), because the kernel can cut a mapping of these nowhere else.
  static constexpr uintptr_t kPieceBytes = uintptr_t{64} << 20;
  /// Returns the address at which the piece begins that is replaced for a fault at this one.
  static constexpr uintptr_t PieceAround(uintptr_t address) {
    return address / kPieceBytes * kPieceBytes;
  }

  struct Range;

 private:
  Range* range_ = nullptr;
};

/// For a system call that has ended with EFAULT, because the kernel raises no SIGBUS then. Returns
/// whether `touch`, which reads the memory that the call was given, made a guard replace it; the
/// call can then be made again.
template <typename Touch>
bool FoundLoss(const Touch& touch) {
  const uint64_t before = FaultGuard::Losses();
  touch();
  return FaultGuard::Losses() != before;
}

}  // namespace harmonaize

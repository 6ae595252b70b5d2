#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "src/base/status.h"

namespace harmonaize {

/// Keeps this process alive when pages of a mapping cannot be had: an access to one raises SIGBUS,
/// which would end the process. That happens to memory shared with somebody hostile, or unlucky:
/// - it has a hole, and the kernel was told to fill none (MissingPages);
/// - a huge page file has a hole punched into it, and the host's pool has no page left to fill it;
/// - a memory module fails, and the kernel takes the page away.
/// While a range is guarded, such an access puts zeroed memory of this process in the place of what
/// lies around it, the access goes on with that, and lost() tells. Whoever works on the memory
/// looks at lost() afterwards and throws away what came of it.
///
/// The object is handed from thread to thread with the mapping. It must go before the range is
/// unmapped, and while nobody uses the memory.
class FaultGuard {
 public:
  /// Takes over SIGBUS for the whole process; faults outside of guarded ranges go on to what was
  /// there before. Once, before any range is guarded. Errors: kSystemError.
  static Status Install();

  /// Guards nothing.
  FaultGuard() = default;
  /// Guards [first, first + bytes), a whole mapping. Thread safe; not to be called in a handler.
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

  /// Whether pages were missing. A thread sees its own faults, and those of whom it has
  /// synchronized with.
  bool lost() const;
  /// How many ranges were lost so far, in the whole process. Who has seen a number sees lost() of
  /// all that it counts. Thread safe.
  static uint64_t Losses();
  /// From now on a loss is told to this eventfd, too, for what is under way to be ended early:
  /// until then work on the range fills memory of this process's own. -1: to none. Thread safe.
  static void TellLossesTo(int event);

  void Reset();

  struct Range;

 private:
  Range* range_ = nullptr;
};

/// For a system call that has ended with EFAULT, because the kernel raises no SIGBUS then: whether
/// `touch`, which reads the memory that the call was given, made a guard put other memory in its
/// place. Then the call can be made again.
template <typename Touch>
bool FoundLoss(const Touch& touch) {
  const uint64_t before = FaultGuard::Losses();
  touch();
  return FaultGuard::Losses() != before;
}

}  // namespace harmonaize

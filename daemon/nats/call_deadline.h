#pragma once

#include <time.h>

#include <cstdint>

namespace harmonaize::daemon {

/// Interrupts system calls of this thread that block beyond a deadline: they fail with EINTR. It is
/// for libraries that wait without a deadline of their own. From the deadline on each further call
/// that blocks is interrupted too, after a tenth of a second, until the object ends. The signal
/// for it (kInterruption) has a handler that does nothing. Requires: the object stands on the stack
/// of the thread, and does not nest.
class CallDeadline {
 public:
  explicit CallDeadline(int64_t milliseconds);
  ~CallDeadline();
  CallDeadline(const CallDeadline&) = delete;
  CallDeadline& operator=(const CallDeadline&) = delete;

  /// Returns the signal. The daemon uses no other one of the real-time signals.
  static int Interruption();

 private:
  timer_t timer_{};
  bool armed_ = false;
};

}  // namespace harmonaize::daemon

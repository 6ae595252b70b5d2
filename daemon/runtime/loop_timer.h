#pragma once

#include <chrono>
#include <functional>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

class EventLoop;

/// Calls something again and again on a loop's thread. Thread: the loop's.
class LoopTimer {
 public:
  /// Requires: the loop outlives the timer.
  explicit LoopTimer(EventLoop* loop) : loop_(loop) {}
  ~LoopTimer() { Stop(); }
  LoopTimer(const LoopTimer&) = delete;
  LoopTimer& operator=(const LoopTimer&) = delete;

  /// Has `call` called every so often from now on; it may stop the timer. A timer that runs already
  /// goes on as it is. Errors: kSystemError if there are no descriptors left.
  Status Start(std::chrono::nanoseconds every, std::function<void()> call);
  void Stop();
  bool running() const { return timer_.valid(); }

 private:
  EventLoop* const loop_;
  FileDescriptor timer_;
};

}  // namespace harmonaize::daemon

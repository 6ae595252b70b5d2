#pragma once

#include <functional>
#include <string>

#include "daemon/runtime/loop_timer.h"
#include "src/base/log.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// Listens at a port that another process may have. Any user of the host can take a port that
/// nobody has, so a taken port does not end the daemon: it tries again until the port is free.
/// Thread: the loop's.
class PortWait {
 public:
  /// Requires: the loop outlives this object.
  explicit PortWait(EventLoop* loop) : next_try_(loop) {}

  /// Calls `listen` now, and from time to time for as long as it returns kUnavailable; its argument
  /// says whether this is a later try. Logs that the port is taken, at this level, with
  /// `consequence`: what holds "until it is free". Errors: what the first call returns but
  /// kUnavailable; kSystemError without a timer.
  Status Begin(std::function<Status(bool again)> listen, LogLevel level,
               const std::string& consequence);
  /// Returns whether another process has the port.
  bool waits() const { return next_try_.running(); }

 private:
  LoopTimer next_try_;
};

}  // namespace harmonaize::daemon

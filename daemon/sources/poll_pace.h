#pragma once

#include <chrono>

namespace harmonaize::daemon {

/// How fast sources are polled. Tests shorten the times.
struct PollPace {
  /// Time for one request, from its start to the end of its answer, besides what it asks the server
  /// to wait. The services inside a machine answer within milliseconds.
  std::chrono::milliseconds deadline{2000};
  /// Longest pause after a failure: a source that is back is seen within five minutes.
  std::chrono::milliseconds most_pause{300'000};
  /// What counts as a second of intervals and of servers' waits.
  std::chrono::milliseconds second{1000};
};

}  // namespace harmonaize::daemon

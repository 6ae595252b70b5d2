#pragma once

#include <string>

#include "cli/daemon_http.h"
#include "src/base/status.h"

namespace harmonaize {

/// The end of a wait for a drain.
struct DrainOutcome {
  std::string text;       ///< For people, with a line break.
  bool all_left = false;  ///< Otherwise communicators were left at the deadline.
};

/// Waits until the daemon is drained or, where it is to restart, serves again. Says on standard
/// error what it waits for: on a terminal in one line that changes, elsewhere whenever it changes.
/// `socket` is where the daemon is looked for again. Errors: kInvalidUsage if the drain was called
/// off; kUnavailable if the daemon does not come back.
Result<DrainOutcome> AwaitDrain(const DaemonHttp& daemon, const std::string& socket);

}  // namespace harmonaize

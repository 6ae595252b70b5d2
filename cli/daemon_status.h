#pragma once

#include <string>

#include "src/base/status.h"

namespace harmonaize {

/// Asks the daemon at `socket` ("": the ones that a client tries) for its state and returns the
/// JSON document that it answers with. Waits a few seconds at most. kUnavailable when no daemon
/// listens, kRemoteError when it does not answer as it should.
Result<std::string> FetchDaemonStatus(const std::string& socket);

}  // namespace harmonaize

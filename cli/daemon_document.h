#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/base/status.h"

namespace harmonaize {

// Each asks the daemon at `socket` ("": the ones that a client tries) for a JSON document about
// itself, which StatusTable, ExplainTable and CommunicatorTable show, and waits a few seconds for
// it at most. kUnavailable when no daemon listens, kRemoteError when it does not answer as it
// should, and whatever the daemon refuses with.

/// What it is doing.
Result<std::string> FetchDaemonStatus(const std::string& socket);

/// How it chooses between the inline and the offload path for communicators of `ranks` ranks.
Result<std::string> FetchDaemonExplanation(const std::string& socket, int ranks);

/// How it carries out the collectives of a communicator, by its number or name.
Result<std::string> FetchCommunicatorExplanation(const std::string& socket,
                                                 const std::string& communicator);

/// Has it lead a probe of the network between the daemons at `addresses` (none: those linked with
/// it, and itself) and waits for the end. `progress` is told what is being measured. Gives what
/// FormatMeasurements writes.
Result<std::string> FetchProbe(const std::string& socket, const std::vector<std::string>& addresses,
                               double seconds,
                               const std::function<void(const std::string&)>& progress);

}  // namespace harmonaize

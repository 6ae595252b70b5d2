#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/base/status.h"

namespace harmonaize {

// Each of these asks the daemon at `socket` ("": the ones that a client tries) for a JSON document
// about itself, which StatusTable, ExplainTable and CommunicatorTable show. They wait a few seconds
// at most. Errors: kUnavailable when no daemon listens, kRemoteError when it does not answer as it
// should, and the daemon's own refusals.

/// Fetches the daemon's status.
Result<std::string> FetchDaemonStatus(const std::string& socket);

/// Fetches how it chooses between the inline and the offload path for communicators of `ranks`
/// ranks.
Result<std::string> FetchDaemonExplanation(const std::string& socket, int ranks);

/// Fetches how it carries out the collectives of a communicator, given by its number or name.
Result<std::string> FetchCommunicatorExplanation(const std::string& socket,
                                                 const std::string& communicator);

/// Lets it lead a probe of the network between the daemons at `addresses` (none: those linked with
/// it, and itself) and waits for the end. `progress` is told what is being measured. Returns text
/// as of FormatMeasurements.
Result<std::string> FetchProbe(const std::string& socket, const std::vector<std::string>& addresses,
                               double seconds,
                               const std::function<void(const std::string&)>& progress);

}  // namespace harmonaize

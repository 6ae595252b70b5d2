#pragma once

#include <nlohmann/json_fwd.hpp>

#include "daemon/communicator/communicator.h"

namespace harmonaize::daemon {

// What several reports say of a communicator in the same words. Thread: engine.

/// Returns "ready", "revoked" or "broken".
const char* StateName(Communicator::State state);
/// Returns the listed operations, each with for how long it has waited, and for which ranks.
nlohmann::json DescribeWaiting(const WaitingOperations& waiting);

}  // namespace harmonaize::daemon

#pragma once

#include <nlohmann/json_fwd.hpp>

#include "daemon/communicator/communicator.h"

namespace harmonaize::daemon {

// What several reports say of a communicator in the same words. Thread: engine.

/// Returns "ready", "revoked" or "broken".
const char* StateName(Communicator::State state);
/// Returns the listed operations, each with for how long it has waited, and for which ranks.
nlohmann::json DescribeWaiting(const WaitingOperations& waiting);
/// Adds to `description` which library carries the communicator's data: `kind` is "host", or
/// "cuda (stock NCCL)" with what the ranks of this host say of it.
void DescribeKind(const Communicator& communicator, nlohmann::json* description);

}  // namespace harmonaize::daemon

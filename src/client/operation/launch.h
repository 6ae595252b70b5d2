#pragma once

#include <span>

#include "src/base/status.h"
#include "src/client/operation/operation.h"

namespace harmonaize {

/// Posts operations that belong together to the daemon, and waits for those that have no host
/// stream. Returns the first failure, or kInProgress when an operation of a non-blocking
/// communicator is under way and all went well so far. If one operation cannot be posted, none is.
/// Requires: the caller is inside all of the communicators by `group`, which is left early if one
/// was aborted.
Status LaunchOperations(std::span<const Operation> operations, InGroup* group);

/// Does what LaunchOperations does, for one operation. Requires: its communicator was just found
/// usable.
Status LaunchOperation(const Operation& operation);

/// Returns the seconds that the executor predicts for the operations, one after the other.
Result<double> EstimateOperations(std::span<const Operation> operations);

}  // namespace harmonaize

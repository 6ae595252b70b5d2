#pragma once

#include <span>

#include "src/base/status.h"
#include "src/client/operation/operation.h"

namespace harmonaize {

/// Hands operations that belong together to the daemon, and waits for those that have no host
/// stream. The first failure; kInProgress when all went well so far but an operation of a
/// non-blocking communicator is under way. When an operation cannot be posted, none is. The caller
/// is inside all of the communicators by `group`, which is left early where one was aborted.
Status LaunchOperations(std::span<const Operation> operations, InGroup* group);

/// The same for a single operation whose communicator has just been found usable.
Status LaunchOperation(const Operation& operation);

/// Seconds that the daemon's executor expects the operations to take, one after the other.
Result<double> EstimateOperations(std::span<const Operation> operations);

}  // namespace harmonaize

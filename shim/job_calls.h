#pragma once

#include <string>

#include "include/nccl.h"
#include "src/base/status.h"
#include "src/client/operation/communicator.h"

namespace harmonaize::shim {

/// Returns the id of a communicator's job. Errors: kInvalidUsage while it is not ready.
Result<std::string> JobOf(const Communicator& communicator);

/// Returns the id of the job of a caller's communicator. Errors: those above; kInvalidArgument for
/// a handle that is not alive; kInvalidUsage where calls go to stock NCCL, "which `lacks`".
Result<std::string> JobOf(ncclComm_t comm, const char* lacks);

/// Returns the route of a job that ends in `what`: "/v1/jobs/3f9a/granted" for "/granted".
std::string RouteOfJob(const std::string& job, const char* what);

}  // namespace harmonaize::shim

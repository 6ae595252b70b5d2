#pragma once

#include <string>

#include "src/base/status.h"

namespace harmonaize {

// Documents for the tools of PyTorch and NCCL, about the ranks on the host of the daemon at
// `socket` ("": the
// first of those that a client tries). A user sees own jobs, an operator all. They wait
// some seconds at most. Errors: those of CallDaemon.

/// Writes what each rank has in flight into a file of its own, `folder`/COMMUNICATOR/
/// nccl_trace_rank_N, as PyTorch's flight recorder does, or as JSON with .json behind the name.
/// COMMUNICATOR is the communicator's id, the same at all hosts. Returns what was written, for
/// people. Others can read neither. Errors besides: kSystemError; kInvalidUsage for a folder that
/// is another user's, or that everybody can write to.
Result<std::string> WriteFlightFiles(const std::string& socket, const std::string& folder,
                                     bool as_json);
/// Returns what NCCL's RAS would print as JSON.
Result<std::string> FetchRas(const std::string& socket);

}  // namespace harmonaize

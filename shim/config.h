#pragma once

#include "include/nccl.h"
#include "src/base/status.h"
#include "src/client/operation/communicator.h"

namespace harmonaize::shim {

/// What a program asked for in `config`, with `defaults` where it said nothing; NULL says nothing.
/// Reads structures of any NCCL since 2.14, shorter or longer than ours. Members that mean nothing
/// here are checked all the same, and named in the log when they were set.
/// Errors: kInvalidArgument when the structure was not initialized or a member is out of range.
Result<CommunicatorOptions> ParseConfig(const ncclConfig_t* config,
                                        const CommunicatorOptions& defaults);

/// The options of a communicator for which nothing was said.
CommunicatorOptions DefaultOptions();

}  // namespace harmonaize::shim

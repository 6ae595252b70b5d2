#pragma once

#include "include/nccl.h"
#include "src/base/status.h"
#include "src/client/operation/communicator.h"

namespace harmonaize::shim {

/// Returns the options that a program asked for in `config` (may be NULL), with those of `defaults`
/// where it set none. Reads structures of any NCCL since 2.14, shorter or longer than ours. Members
/// without a meaning here are named in the log when they were set, as far as NCCL 2.32 has them,
/// and checked unless the structure is of a newer NCCL than ours. Members of later versions are
/// ignored. Errors: kInvalidArgument when the structure was not initialized or a member is out of
/// range.
Result<CommunicatorOptions> ParseConfig(const ncclConfig_t* config,
                                        const CommunicatorOptions& defaults);

/// Returns the options of a communicator for which none were given.
CommunicatorOptions DefaultOptions();

}  // namespace harmonaize::shim

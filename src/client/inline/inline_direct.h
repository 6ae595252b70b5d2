#pragma once

#include <cstddef>

#include "src/client/operation/operation.h"

namespace harmonaize {

/// Whether a collective can go directly between the ranks' buffers, without a copy on the way: not
/// where a rank would overwrite what others have yet to read, as an all-reduce or an all-to-all in
/// place does.
bool GoesDirectly(const Operation& operation);

/// Makes this rank's result from the send buffers of all, by rank: nullptr for a rank that sends
/// nothing. `scalars` are those of kPreMulSum, by rank. Requires: the rank receives something. It
/// writes to its own memory alone: nobody else may map a rank's memory to write to it.
void MakeResultDirectly(const Operation& operation, int rank, int ranks,
                        const std::byte* const* send, const uint64_t* scalars, bool non_temporal);

}  // namespace harmonaize

#pragma once

#include <cstddef>

#include "src/client/operation/operation.h"

namespace harmonaize {

/// Whether a collective can go directly between the registered buffers of its ranks, without a copy
/// on the way. An all-to-all in place cannot: a rank would overwrite what others have yet to read.
bool GoesDirectly(const Operation& operation);

/// This rank's share of the work, when all ranks' buffers lie in this process's reach. A reduction
/// to one buffer or to all is cut evenly, each rank writing its elements of every result; of the
/// rest each rank makes the blocks that it receives, or, where only the root receives, writes its
/// own. `send` and `receive` are by rank, nullptr for a buffer that the rank does not use.
void DoDirectShare(const Operation& operation, int rank, int ranks, const std::byte* const* send,
                   std::byte* const* receive, const uint64_t* scalars, bool non_temporal);

}  // namespace harmonaize

#pragma once

#include <cstddef>
#include <cstdint>

#include "src/client/operation.h"
#include "src/ipc/inline_segment.h"

namespace harmonaize {

/// One piece of a collective on the inline path: the same range of elements of every block.
struct InlinePiece {
  uint64_t first_element = 0;
  uint64_t elements = 0;
  /// From one published block to the next, in elements.
  uint64_t stride = 0;
  bool non_temporal = false;
};

/// Blocks that a rank publishes for the others: 1, or one for each rank.
int PublishedBlocks(Collective collective, int ranks);

/// Copies this rank's part of a piece to where the others will look for it.
void PublishPiece(const Operation& operation, const InlinePiece& piece, int rank, int ranks,
                  std::byte* slot);

/// Makes this rank's part of the result from what all have published. `slots` and `scalars` (of
/// kPreMulSum) are by rank; the caller's own slot is not read.
void TakeInPiece(const Operation& operation, const InlinePiece& piece, int rank, int ranks,
                 const std::byte* const* slots, const uint64_t* scalars);

}  // namespace harmonaize

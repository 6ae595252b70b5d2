#pragma once

#include <cstddef>
#include <vector>

#include "perf/harness/verification.h"

namespace harmonaize::perf {

/// How one size is laid out in a rank's buffers. All numbers are elements.
struct Layout {
  size_t send_count;                ///< In the send buffer.
  size_t recv_count;                ///< In the receive buffer.
  size_t count;                     ///< The count that the NCCL call is given.
  size_t send_in_place_stride = 0;  ///< In place, rank r sends from element r times this ...
  size_t recv_in_place_stride = 0;  ///< ... and receives at element r times this of one buffer.
};

// The shapes that NCCL's collectives have, for `count` elements in the larger buffer. Where that
// holds a block for each rank, a block is count / ranks rounded down to a multiple of 16 bytes, as
// in nccl-tests.

/// Both buffers are whole.
Layout WholeBuffers(size_t count, size_t element_bytes, int ranks);
/// A rank sends its own block and receives everybody's.
Layout BlockToAll(size_t count, size_t element_bytes, int ranks);
/// A rank has a block for everybody and receives its own.
Layout AllToBlock(size_t count, size_t element_bytes, int ranks);
/// A rank has a block for everybody and receives one from everybody.
Layout AllToAll(size_t count, size_t element_bytes, int ranks);

/// An output made of one block of each rank's input, in the order of the ranks; each begins at
/// element `source_first` of that input.
std::vector<Segment> BlockOfEachRank(int ranks, size_t count, size_t source_first);

// busbw / algbw, as nccl-tests' doc/PERFORMANCE.md derives it: what crosses a rank's link, in units
// of the larger buffer.

/// Every element, once.
double WholeBuffer(int ranks);
/// All but the rank's own block.
double OthersBlocks(int ranks);

}  // namespace harmonaize::perf

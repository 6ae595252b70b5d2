#pragma once

#include <cstddef>
#include <vector>

#include "perf/harness/verification.h"

namespace harmonaize::perf {

/// Layout of one size in a rank's buffers. All numbers are elements.
struct Layout {
  size_t send_count;                ///< In the send buffer.
  size_t recv_count;                ///< In the receive buffer.
  size_t count;                     ///< Count passed to the NCCL call.
  size_t send_in_place_stride = 0;  ///< In place, rank r sends from element r times this.
  size_t recv_in_place_stride = 0;  ///< In place, rank r receives at element r times this.
};

// Layouts of NCCL's collectives, for `count` elements in the larger buffer. If that holds a block
// for each rank, a block is count / ranks rounded down to a multiple of 16 bytes, as in nccl-tests.

/// Returns the layout in which both buffers are whole.
Layout WholeBuffers(size_t count, size_t element_bytes, int ranks);
/// Returns the layout in which a rank sends its own block and receives everybody's.
Layout BlockToAll(size_t count, size_t element_bytes, int ranks);
/// Returns the layout in which a rank has a block for everybody and receives its own.
Layout AllToBlock(size_t count, size_t element_bytes, int ranks);
/// Returns the layout in which a rank has a block for everybody and receives one from everybody.
Layout AllToAll(size_t count, size_t element_bytes, int ranks);

/// Returns an output made of one block of each rank's input, in the order of the ranks; each begins
/// at element `source_first` of that input.
std::vector<Segment> BlockOfEachRank(int ranks, size_t count, size_t source_first);

// busbw / algbw, as nccl-tests' doc/PERFORMANCE.md derives it: the data that crosses a rank's link,
// in units of the larger buffer.

/// Counts every element once.
double WholeBuffer(int ranks);
/// Counts all blocks but the rank's own.
double OthersBlocks(int ranks);

}  // namespace harmonaize::perf

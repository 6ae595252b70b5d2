#pragma once

#include <cstddef>
#include <cstdint>

#include "src/client/operation/operation.h"
#include "src/ipc/inline_segment.h"

namespace harmonaize {

/// One piece of a collective on the inline path: the same range of elements of every block.
struct InlinePiece {
  uint64_t first_element = 0;
  uint64_t elements = 0;
  /// Elements from one published block to the next.
  uint64_t stride = 0;
  bool non_temporal = false;
};

/// Returns a piece that covers a whole operation.
inline InlinePiece WholePiece(const Operation& operation) {
  return {0, operation.count, operation.count, false};
}

/// Returns how many blocks a rank publishes for the others: 1, or one for each rank.
constexpr int PublishedBlocks(Collective collective, int ranks) {
  const bool for_each_rank = collective == Collective::kReduceScatter ||
                             collective == Collective::kAllToAll ||
                             collective == Collective::kScatter;
  return for_each_rank ? ranks : 1;
}
/// Returns how many bytes a rank publishes.
constexpr uint64_t PublishedBytes(const Operation& operation, int ranks) {
  return operation.count * DataTypeSize(operation.type) *
         static_cast<uint64_t>(PublishedBlocks(operation.collective, ranks));
}

/// Copies this rank's part of a piece to its slot, where the others read it.
void PublishPiece(const Operation& operation, const InlinePiece& piece, int rank, int ranks,
                  std::byte* slot);

/// Computes this rank's part of the result from what all have published, and writes only to the
/// receive buffer. `slots` and `scalars` (of kPreMulSum) are by rank; the caller's own slot is not
/// read. With a whole piece the slots may be the ranks' send buffers themselves.
void TakeInPiece(const Operation& operation, const InlinePiece& piece, int rank, int ranks,
                 const std::byte* const* slots, const uint64_t* scalars);

}  // namespace harmonaize

#pragma once

#include <algorithm>
#include <cstdint>

#include "src/base/collective.h"
#include "src/ipc/session_segment.h"

namespace harmonaize {

/// How the blocks of one slice lie in a slot of a rank's window: block by block, each with room for
/// the elements of a whole slice. Block i of a buffer is that of its piece i % pieces, unit i /
/// pieces, as in schedules. Tenant and daemon compute the same.
struct WindowLayout {
  uint64_t blocks = 0;   ///< Blocks in a slot.
  uint64_t send = 0;     ///< The first block of the send buffer.
  uint64_t receive = 0;  ///< The first block of the receive buffer.

  /// Returns the bytes from one slot to the next; saturates.
  uint64_t SlotBytes(uint64_t slice_elements, uint64_t element_bytes) const {
    constexpr uint64_t kMost = UINT64_MAX / 2;
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(blocks, slice_elements, &bytes) ||
        __builtin_mul_overflow(bytes, element_bytes, &bytes) || bytes > kMost) {
      return kMost;
    }
    // Whole cache lines, so that a rank does not fill a line that is being read.
    return (bytes + 63) / 64 * 64;
  }
};

/// Returns the layout of the windows that `flags` (OperationFlags) tell of. Requires: `pieces` is
/// above 0.
constexpr WindowLayout LayoutOf(const BufferBlocks& units, int rank, uint64_t pieces,
                                uint8_t flags) {
  const uint64_t send = (flags & kSendWindow) != 0 ? units.send * pieces : 0;
  const uint64_t receive = (flags & kReceiveWindow) != 0 ? units.receive * pieces : 0;
  const bool one = (flags & kOneWindow) != 0 && send > 0 && receive > 0;
  if (!one) return {.blocks = send + receive, .send = 0, .receive = send};
  const uint64_t nested = static_cast<uint64_t>(rank) * pieces;
  return {.blocks = send > receive ? send : receive,
          .send = send < receive ? nested : 0,
          .receive = receive < send ? nested : 0};
}

/// How an operation's buffers are cut, in bytes: see SliceProgress.
struct WindowCut {
  uint64_t unit_bytes = 0;
  uint64_t piece_bytes = 0;
  uint64_t pieces = 1;
  uint64_t slice_bytes = 0;
  uint64_t slots = 1;
  uint64_t slot_bytes = 0;

  /// Calls `call(own, place, bytes)` for each block of a slice: `own` is where it begins in the
  /// buffer, and `place` where it lies in the window. The buffer has so many units, and its blocks
  /// follow `first_block` in a slot.
  template <typename Call>
  void ForEachBlock(uint64_t slice, uint64_t units, uint64_t first_block, Call&& call) const {
    const uint64_t slot = slice % slots * slot_bytes;
    for (uint64_t unit = 0; unit < units; ++unit) {
      for (uint64_t piece = 0; piece < pieces; ++piece) {
        const uint64_t begin = piece * piece_bytes + slice * slice_bytes;
        const uint64_t piece_end = std::min((piece + 1) * piece_bytes, unit_bytes);
        const uint64_t end = std::min(begin + slice_bytes, piece_end);
        if (begin >= end) continue;
        const uint64_t block = first_block + unit * pieces + piece;
        call(unit * unit_bytes + begin, slot + block * slice_bytes, end - begin);
      }
    }
  }
};

}  // namespace harmonaize

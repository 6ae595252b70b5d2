#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "src/base/collective.h"
#include "src/numerics/types.h"

namespace harmonaize {

// The memory on which the ranks of one communicator carry out small operations by themselves: the
// inline path. The daemon makes it and hands it to the ranks, which all belong to one tenant. The
// daemon never touches it, because a rank could block it at any page by punching a hole there.
// Daemon and ranks communicate through each rank's InlineSlot (src/ipc/inline_slot.h).
//
//     InlineHeader | InlineRank[ranks] | InlinePair[ranks * ranks] | collective slots | pair slots
//
// src/client/inline/rendezvous.h tells how the ranks agree who takes part, and on which path;
// src/client/inline/inline_operation.h tells how the data moves.

/// Most ranks of a communicator that uses the inline path: each one has to poll every other.
inline constexpr int kMaxInlineRanks = 32;

/// A rank publishes at most this many pieces before it has taken in the first of them.
inline constexpr int kInlineLookahead = 1;
/// Slots of a rank, as the lookahead requires. A rank that publishes piece p has taken in piece p -
/// lookahead - 1, so it has seen all ranks publish that one. By then they had taken in p - 2
/// (lookahead + 1), so no rank still reads the slot of p - kInlineSlots.
inline constexpr int kInlineSlots = 2 * kInlineLookahead + 2;
/// Bytes of one slot, which a rank publishes at once. Two ranks' slots stay in the second-level
/// cache beside the buffers.
inline constexpr size_t kInlineSlotBytes = size_t{64} << 10;

/// Number of slots of a pair's ring, which the sender fills and the receiver drains.
inline constexpr int kInlinePairSlots = 4;
/// Bytes of each of these slots.
inline constexpr size_t kInlinePairSlotBytes = size_t{32} << 10;

/// Operations between registered buffers go directly if a block has at least this many bytes. For
/// smaller blocks, copying through the slots costs less than waiting once more at the end.
inline constexpr uint64_t kLeastDirectBytes = 4096;
/// The same bound where one rank's data goes to all others, or theirs to it (broadcast, gather,
/// scatter), because the copies on the way do not add up there.
inline constexpr uint64_t kLeastDirectCopyBytes = 16384;

constexpr uint64_t LeastDirectBytes(Collective collective) {
  return HasRoot(collective) && !Reduces(collective) ? kLeastDirectCopyBytes : kLeastDirectBytes;
}

/// Bytes of data that fit beside the flag, and travel with it.
inline constexpr size_t kInlineLineBytes = 96;

/// Content of InlineLine::data for an operation that goes directly from buffer to buffer: the place
/// of the rank's send buffer in its registered memory. kNoBuffer for a rank that sends nothing.
struct DirectBuffer {
  uint64_t offset;
  uint32_t region;
};
static_assert(sizeof(DirectBuffer) <= kInlineLineBytes);

/// A rank's announcement that it takes part in an operation, and with what. Only that rank writes
/// it, `ready` last.
struct alignas(128) InlineLine {
  /// The operation's ticket << 2 | flags; see Rendezvous.
  std::atomic<uint64_t> ready;
  std::atomic<uint64_t> call;   ///< Collective, type, operator and root, on which all must agree.
  std::atomic<uint64_t> count;  ///< Elements, on which all must agree too.
  uint64_t scalar;              ///< Scalar of kPreMulSum; for a send, an InlineSend.
  std::byte data[kInlineLineBytes];
};
static_assert(sizeof(InlineLine) == 128);

/// Way by which the data of a send travels.
enum InlineSend : uint64_t {
  kSendInRing = 0,
  kSendInRingFirstFilled,  ///< The first slot was filled before the line was posted.
  kSendDirectly,           ///< The receiver copies it from the sender's registered memory.
};

/// Lines that a rank writes for all others.
struct alignas(128) InlineRank {
  InlineLine lines[kInlineSlots];
};

/// State of the sends from one rank to another.
struct alignas(128) InlinePair {
  InlineLine send[2];     ///< Written by the sender, in turn.
  InlineLine receive[2];  ///< Written by the receiver.
  alignas(128) std::atomic<uint64_t> decision;
  alignas(128) std::atomic<uint64_t> filled;   ///< Slots that the sender has ever filled.
  alignas(128) std::atomic<uint64_t> drained;  ///< Slots that the receiver has ever emptied.
};

struct InlineHeader {
  /// Path of the last contested collective: its ticket << 2 | InlineDecision.
  alignas(128) std::atomic<uint64_t> decision;
  /// Number of ranks that sleep on `events`, which grows whenever there may be news for them.
  alignas(128) std::atomic<uint32_t> sleepers;
  std::atomic<uint32_t> events;
};

/// Offsets of the parts of a segment for `ranks` ranks.
class InlineLayout {
 public:
  explicit InlineLayout(int ranks) : ranks_(static_cast<size_t>(ranks)) {}

  size_t RankOffset(int rank) const {
    return sizeof(InlineHeader) + static_cast<size_t>(rank) * sizeof(InlineRank);
  }
  size_t PairOffset(int sender, int receiver) const {
    return RankOffset(0) + ranks_ * sizeof(InlineRank) +
           PairIndex(sender, receiver) * sizeof(InlinePair);
  }
  size_t SlotOffset(int rank, int slot) const {
    return FirstSlot() + (static_cast<size_t>(rank) * kInlineSlots + static_cast<size_t>(slot)) *
                             kInlineSlotBytes;
  }
  size_t PairSlotOffset(int sender, int receiver, int slot) const {
    return FirstSlot() + ranks_ * kInlineSlots * kInlineSlotBytes +
           (PairIndex(sender, receiver) * kInlinePairSlots + static_cast<size_t>(slot)) *
               kInlinePairSlotBytes;
  }
  size_t bytes() const {
    return FirstSlot() + ranks_ * kInlineSlots * kInlineSlotBytes +
           ranks_ * ranks_ * kInlinePairSlots * kInlinePairSlotBytes;
  }

 private:
  static constexpr size_t kPage = 4096;
  size_t PairIndex(int sender, int receiver) const {
    return static_cast<size_t>(sender) * ranks_ + static_cast<size_t>(receiver);
  }
  size_t FirstSlot() const {
    const size_t end =
        RankOffset(0) + ranks_ * sizeof(InlineRank) + ranks_ * ranks_ * sizeof(InlinePair);
    return (end + kPage - 1) / kPage * kPage;
  }

  size_t ranks_;
};

}  // namespace harmonaize

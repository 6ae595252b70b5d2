#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "src/base/collective.h"
#include "src/numerics/types.h"

namespace harmonaize {

// The memory on which the ranks of one communicator carry out small operations by themselves: the
// inline path. The daemon makes it and hands it to the ranks, which are all of one tenant. It never
// touches it: a rank could keep it waiting at any page, by making a hole there. What daemon and
// ranks tell each other is in each rank's InlineSlot (src/ipc/inline_slot.h).
//
//     InlineHeader | InlineRank[ranks] | InlinePair[ranks * ranks] | collective slots | pair slots
//
// How the ranks use it is told in src/client/inline/rendezvous.h (who takes part, and on which
// path) and src/client/inline/inline_operation.h (how the data moves).

/// More ranks than this in a communicator never take the inline path: each one would have to look
/// at every other.
inline constexpr int kMaxInlineRanks = 32;

/// A rank publishes at most this many pieces before it has taken in the first of them ...
inline constexpr int kInlineLookahead = 1;
/// ... and then needs this many slots. A rank that publishes piece p has taken in piece
/// p - lookahead - 1, so it has seen all ranks publish that one, and by then they had taken in
/// p - 2 (lookahead + 1): nobody still reads the slot of p - kInlineSlots.
inline constexpr int kInlineSlots = 2 * kInlineLookahead + 2;
/// Bytes of one slot: what a rank publishes at once. Two ranks' slots stay in the second-level
/// cache beside the buffers.
inline constexpr size_t kInlineSlotBytes = size_t{64} << 10;

/// The same for a pair: a ring that the sender fills and the receiver drains.
inline constexpr int kInlinePairSlots = 4;
inline constexpr size_t kInlinePairSlotBytes = size_t{32} << 10;

/// Operations between registered buffers go directly from this many bytes (of a block) up: below,
/// it costs less to copy the data through the slots than to wait once more at the end. Where one
/// rank's data goes to others, or theirs to it, the copies on the way do not add up.
inline constexpr uint64_t kLeastDirectBytes = 4096;
inline constexpr uint64_t kLeastDirectCopyBytes = 16384;

constexpr uint64_t LeastDirectBytes(Collective collective) {
  return HasRoot(collective) && !Reduces(collective) ? kLeastDirectCopyBytes : kLeastDirectBytes;
}

/// What fits beside the flag travels with it.
inline constexpr size_t kInlineLineBytes = 96;

/// In InlineLine::data of an operation that goes directly from buffer to buffer: where the rank's
/// send buffer is, in its registered memory. kNoBuffer for a rank that sends nothing.
struct DirectBuffer {
  uint64_t offset;
  uint32_t region;
};
static_assert(sizeof(DirectBuffer) <= kInlineLineBytes);

/// Where one rank says that it takes part in an operation, and with what. Written by that rank
/// alone, `ready` last.
struct alignas(128) InlineLine {
  /// The operation's ticket << 2 | flags; see Rendezvous.
  std::atomic<uint64_t> ready;
  std::atomic<uint64_t> call;   ///< Collective, type, operator and root: what all must agree on,
  std::atomic<uint64_t> count;  ///< and this.
  uint64_t scalar;              ///< kPreMulSum. Of a send: an InlineSend.
  std::byte data[kInlineLineBytes];
};
static_assert(sizeof(InlineLine) == 128);

/// How the data of a send travels.
enum InlineSend : uint64_t {
  kSendInRing = 0,
  kSendInRingFirstFilled,  ///< The first slot was filled before the line was posted.
  kSendDirectly,           ///< The receiver copies it from the sender's registered memory.
};

/// What a rank writes for all others.
struct alignas(128) InlineRank {
  InlineLine lines[kInlineSlots];
};

/// Sends from one rank to another.
struct alignas(128) InlinePair {
  InlineLine send[2];     ///< Written by the sender, in turn.
  InlineLine receive[2];  ///< Written by the receiver.
  alignas(128) std::atomic<uint64_t> decision;
  alignas(128) std::atomic<uint64_t> filled;   ///< Slots that the sender has filled, ever.
  alignas(128) std::atomic<uint64_t> drained;  ///< Slots that the receiver has emptied, ever.
};

struct InlineHeader {
  /// On which path the last contested collective went: its ticket << 2 | InlineDecision.
  alignas(128) std::atomic<uint64_t> decision;
  /// Ranks that sleep on `events`, which grows whenever there may be news for them.
  alignas(128) std::atomic<uint32_t> sleepers;
  std::atomic<uint32_t> events;
};

/// Where things lie in a segment for `ranks` ranks.
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

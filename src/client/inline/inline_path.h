#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "src/base/status.h"
#include "src/client/inline/rendezvous.h"
#include "src/client/memory/buffer_locator.h"
#include "src/client/memory/buffer_probe.h"
#include "src/client/memory/peer_memory.h"
#include "src/client/session/session.h"
#include "src/ipc/inline_segment.h"
#include "src/memory/shared_memory.h"

namespace harmonaize {

struct Operation;

/// One rank's place on the inline path of its communicator: the segment that it shares with the
/// other ranks, its slot, which it shares with the daemon, and its progress. Thread: one, the one
/// that is inside the communicator.
class InlinePath {
 public:
  /// Returns nullptr where the daemon has no segment for this communicator. Ranks of a communicator
  /// that live in one process share one mapping.
  static Result<std::unique_ptr<InlinePath>> Attach(Session& session, uint32_t member, int rank,
                                                    int ranks);

  /// Returns whether this rank would carry out `operation` inline; other ranks may differ, see
  /// Rendezvous. Also unmaps regions that other ranks have freed. Requires: nothing that
  /// peer_memory gave is in use.
  bool Admits(const Operation& operation);

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  /// Returns the size of the segment in bytes.
  uint64_t bytes() const { return layout_.bytes(); }
  size_t last_level_cache_bytes() const { return slot_.last_level_cache_bytes; }
  bool crowded() const { return slot_.crowded != 0; }

  /// The tickets and slots of one sequence of operations that participants count alike.
  struct Sequence {
    uint64_t ticket = 1;  ///< Ticket of the next operation.
    uint64_t slot = 0;    ///< Number of lines used so far, by operations that went inline.
    uint64_t ring = 0;    ///< For a pair: number of slots of its ring used so far.
    /// Whether an operation of the launch under way uses this sequence.
    bool taken = false;
  };
  Sequence& collectives() { return collectives_; }
  Sequence& sends(int peer) { return sends_[static_cast<size_t>(peer)]; }
  Sequence& receives(int peer) { return receives_[static_cast<size_t>(peer)]; }

  /// Returns where the ranks meet for the piece that uses slot number `slot` of the collectives.
  Rendezvous CollectiveAt(uint64_t slot) const {
    return Rendezvous(&header().decision, &rank_area(0).lines[slot % kInlineSlots],
                      sizeof(InlineRank), ranks_, rank_);
  }
  /// Returns the bytes that `rank` publishes in slot number `slot`.
  std::byte* SlotOf(int rank, uint64_t slot) const {
    return base_ + layout_.SlotOffset(rank, static_cast<int>(slot % kInlineSlots));
  }

  /// Returns where this rank meets the one that it sends to, or receives from, for operation number
  /// `turn` of the pair. A rank may meet itself.
  Rendezvous SendTo(int receiver, uint64_t turn) const {
    return MeetIn(Pair(rank_, receiver), turn, true);
  }
  Rendezvous ReceiveFrom(int sender, uint64_t turn) const {
    return MeetIn(Pair(sender, rank_), turn, false);
  }
  /// Returns the meeting place of a pair that the caller already has.
  static Rendezvous MeetIn(InlinePair& pair, uint64_t turn, bool sends) {
    return Rendezvous(&pair.decision, &pair.send[turn % 2], sizeof pair.send, 2, sends ? 0 : 1);
  }
  InlinePair& Pair(int sender, int receiver) const {
    return *reinterpret_cast<InlinePair*>(base_ + layout_.PairOffset(sender, receiver));
  }
  std::byte* PairSlot(int sender, int receiver, uint64_t slot) const;

  /// Wakes the threads that sleep on this communicator's segment. To be called after every word
  /// that another rank may wait for.
  void Notify() {
    // The sleeper's heavy fence orders this load after what the caller has just written: either we
    // see that it sleeps, or it sees what we wrote. (Where the kernel has no such fence, sleeps are
    // short.)
    if (header().sleepers.load(std::memory_order_relaxed) != 0) WakeSleepers();
  }
  /// A thread sleeps in three steps: it announces the sleep, checks once more for what it awaits,
  /// and then sleeps (for at most `nanoseconds`) or cancels the sleep.
  uint32_t AnnounceSleep();
  void Sleep(uint32_t announced, uint64_t nanoseconds);
  void CancelSleep();

  /// Tells the daemon that this rank has waited for long in an operation; for whom it waits in it
  /// by now; and that it waits no more.
  void TellWait(Session& session, const InlineWait& wait);
  void TellAwaited(const InlineWait& wait) {
    slot_.wait.for_ranks.store(wait.for_ranks, std::memory_order_relaxed);
  }
  void TakeBackWait(Session& session);

  /// Returns where this rank's buffers lie in memory that the others can map.
  BufferReference Locate(Session& session, const void* address, uint64_t bytes) {
    return locator_.Locate(session, address, bytes);
  }
  /// Returns the other ranks' registered memory, for operations that go directly.
  PeerMemory& peer_memory() { return peer_memory_; }

  /// Counts an operation for the operator's statistics.
  void Count(uint64_t bytes) {
    // This rank is the only writer.
    slot_.operations.store(slot_.operations.load(std::memory_order_relaxed) + 1,
                           std::memory_order_relaxed);
    slot_.bytes.store(slot_.bytes.load(std::memory_order_relaxed) + bytes,
                      std::memory_order_relaxed);
  }

 private:
  InlinePath(std::shared_ptr<Mapping> mapping, InlineSlot& slot, uint32_t member, int rank,
             int ranks);
  void WakeSleepers();
  enum class Inclination;
  static Inclination ReadInclination();
  bool SteeredInline(const Operation& operation, uint64_t bytes) const;
  bool BuffersExist(const Operation& operation, uint64_t block_bytes);
  void ForgetGoneRegions(uint32_t gone);
  InlineHeader& header() const { return *reinterpret_cast<InlineHeader*>(base_); }
  InlineRank& rank_area(int rank) const {
    return *reinterpret_cast<InlineRank*>(base_ + layout_.RankOffset(rank));
  }

  const std::shared_ptr<Mapping> mapping_;
  std::byte* const base_;
  InlineSlot& slot_;
  const InlineLayout layout_;
  const int rank_;
  const int ranks_;
  const Inclination inclination_;
  BufferProbe probe_;
  BufferLocator locator_;
  PeerMemory peer_memory_;
  uint32_t waits_told_ = 0;  ///< How many waits the daemon has been told of.
  uint32_t gone_seen_ = 0;   ///< Count of InlineSlot::gone up to which regions are forgotten.
  Sequence collectives_;
  std::vector<Sequence> sends_;     // by peer
  std::vector<Sequence> receives_;  // by peer
};

}  // namespace harmonaize

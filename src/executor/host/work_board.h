#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "src/executor/host/execution.h"
#include "src/executor/host/machine.h"
#include "src/executor/host/tenant_turns.h"

namespace harmonaize {

/// The executions in progress, on a board of fixed slots from which threads take units without
/// locks.
///
/// A slow thread may still look at a slot whose execution has long finished and been replaced. This
/// is safe because a slot's whole state of claims is one 64-bit word {permits, first unclaimed
/// unit, number of unclaimed units}, and a unit is taken by a compare-and-swap of that word alone.
/// Whatever the thread saw before, the swap succeeds only if the word says at that instant that the
/// unit is free, and then the unit belongs to the execution that is in the slot at that instant.
/// Nothing else of the slot or the execution is read before. From then on the execution cannot
/// finish, hence cannot leave the slot, until the taker completes the unit. So the word needs no
/// generation, and because slots are never freed, executions may be.
///
/// An execution that fewer threads may work for than it has units (Execution::most_threads) has as
/// many permits. Taking one of its units takes a permit too, and the thread gives it back when it
/// has run the unit, before it completes it. Other executions have no permits to count, and cost
/// what they would cost without all this.
class WorkBoard {
 public:
  static constexpr int kSlots = 64;
  /// Permits of an execution that has none to count.
  static constexpr int kUncounted = 255;

  struct Unit {
    Execution* execution = nullptr;
    uint32_t index = 0;
    uint32_t left = 0;         ///< Units of the execution that were still unclaimed after this one.
    int permits = kUncounted;  ///< Permits of the execution that were left, or kUncounted.
    int place = 0;             ///< Place of the execution's tenant.
  };

  /// Remembers where a thread last took a unit, so that it goes round all executions, unit by unit.
  struct Cursor {
    int slot = 0;
    /// Whether to take units from the end. Two threads that meet from both sides keep to their own
    /// parts of the buffers from one operation to the next, and so does the data in their caches.
    bool from_the_end = false;
  };

  /// Bit n of `nodes`: some threads that take units are near the memory of node n.
  explicit WorkBoard(uint32_t nodes = 0) : nodes_(nodes) {}

  /// Posts an execution of at least one unit; returns false when all slots are taken. Owner only.
  bool Post(Execution* execution);
  /// Returns whether a slot is free. Owner only.
  bool has_room() const { return free_slots_ != 0; }
  /// Frees the slot of an execution that finished. Owner only.
  void Retire(Execution* execution);

  /// Takes one unit of an execution in one of `slots`, if there is any, from the tenant whose turn
  /// it is.
  std::optional<Unit> Take(uint64_t slots, Cursor& cursor);
  /// Gives back the permit that a unit was taken with. Requires: the caller has run the unit and
  /// not yet completed it.
  void GivePermitBack(const Unit& unit) {
    if (unit.permits != kUncounted) AddPermit(unit);
  }
  /// Adds time spent for the tenant of this place, already divided by its weight.
  void Charge(int place, double nanoseconds) { turns_.Charge(place, nanoseconds); }
  /// Returns whether the tenant of this place would have the next turn if it had work. Owner only.
  bool IsFirst(int place) const;

  /// Returns the slots whose execution has its memory on a node other than `node` that has threads
  /// of its own; none for `node` < 0. A preference, no more: it may be out of date.
  uint64_t slots_away_from(int node) const {
    return node < 0 ? 0 : away_from_[static_cast<size_t>(node)].load(std::memory_order_relaxed);
  }

  /// Takes all unclaimed units of an execution. Requires: the caller holds one of its units, or is
  /// the owner.
  uint32_t TakeRest(const Execution& execution);

  /// Returns whether any execution has unclaimed units, and a permit for them. Sequentially
  /// consistent, see Parking.
  bool AnyWork() const { return active_.load(std::memory_order_seq_cst) != 0; }

  /// Returns AnyWork without the execution of which the caller holds a unit, and without those of
  /// one unit that the owner runs itself.
  bool AnyWorkBeside(const Execution& execution) const;

  /// Returns the slots of executions that the owner may help. Owner only.
  uint64_t helpable_slots() const { return helpable_slots_; }
  /// Returns the slots of helpable executions of one unit, for which no worker comes. Owner only.
  uint64_t slots_left_to_owner() const { return left_to_owner_.load(std::memory_order_relaxed); }

 private:
  struct alignas(64) Slot {
    // From the top: 8 bits of permits, 28 of the first unclaimed unit, 28 of their number.
    std::atomic<uint64_t> claims{0};
    // Written by the owner before `claims`, read after a claim.
    Execution* execution = nullptr;
  };

  std::optional<Unit> TakeAmong(uint64_t active, Cursor& cursor);
  uint64_t Claim(int slot, bool from_the_end);
  void NoteTenant(uint64_t bit, const Execution& execution);
  void AddPermit(const Unit& unit);
  void EndClaims(int slot, bool counted);
  void UpdateActive(int slot, bool claimable);
  void NotePlace(uint64_t bit, int node);

  // Bit s: slot s may have unclaimed units. The owner sets it before there are any. The thread that
  // takes the last unit clears it, before that unit is completed and so never for the slot's next
  // execution. While permits are counted the bit also follows them, see UpdateActive.
  alignas(64) std::atomic<uint64_t> active_{0};
  // Bit s: the execution in slot s is helpable and has one unit. Written by the owner before the
  // slot's bit in active_ is.
  std::atomic<uint64_t> left_to_owner_{0};
  const uint32_t nodes_;
  // By node, bit s: the memory of the execution in slot s lies on another node. Written by the
  // owner when it posts.
  std::array<std::atomic<uint64_t>, kMaxNodes> away_from_{};
  // By place of a tenant, bit s: the execution in slot s is that tenant's. Bit p of places_: place
  // p has some. Both are written by the owner when it posts and retires.
  std::array<std::atomic<uint64_t>, TenantPlaces::kPlaces> slots_of_{};
  std::atomic<uint32_t> places_{0};
  TenantTurns turns_;
  std::array<Slot, kSlots> slots_;
  alignas(64) uint64_t free_slots_ = ~uint64_t{0};
  uint64_t helpable_slots_ = 0;
  uint64_t counted_slots_ = 0;  // whose execution has permits
};

/// Executions that ended, on their way to the owner: many threads push, one pops, in the order of
/// pushing.
class FinishedList {
 public:
  /// Hands the execution to the owner. Thread: any.
  void Push(Execution* execution);
  /// Removes and returns the oldest execution; nullptr when there is none. Owner only.
  Execution* Pop();
  /// Returns whether Pop would return an execution. Owner only.
  bool any() const {
    return oldest_ != nullptr || pushed_.load(std::memory_order_relaxed) != nullptr;
  }

 private:
  // Newest first. Pop swaps out the whole list, so no node can come back while a push is under way
  // (no ABA).
  alignas(64) std::atomic<Execution*> pushed_{nullptr};
  alignas(64) Execution* oldest_ = nullptr;  // Owner only; oldest first.
};

}  // namespace harmonaize

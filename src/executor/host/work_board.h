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
/// What makes it safe that a slow thread still looks at a slot whose execution has long finished
/// and been replaced: a slot's whole state of claims is one 64-bit word {first unclaimed unit,
/// number of unclaimed units}, and a unit is taken by a compare-and-swap of that word alone.
/// Whatever the thread saw before, the swap succeeds only if the word says at that instant that the
/// unit is free, and then the unit is one of the execution that is in the slot at that instant.
/// Nothing else of the slot or the execution is read before. From then on the execution cannot
/// finish, hence cannot leave the slot, until the taker completes the unit. So the word needs no
/// generation, and slots being never freed, executions may be.
class WorkBoard {
 public:
  static constexpr int kSlots = 64;

  struct Unit {
    Execution* execution = nullptr;
    uint32_t index = 0;
    uint32_t left = 0;  ///< Units of the execution that were still unclaimed after this one.
    int place = 0;      ///< Of its tenant.
  };

  /// Where a thread last took a unit, so that it goes round all executions, unit by unit.
  struct Cursor {
    int slot = 0;
    /// Takes units from the end: two threads that meet from both sides keep to their own part of
    /// the buffers from one operation to the next, and so does the data in their caches.
    bool from_the_end = false;
  };

  /// Bit n of `nodes`: there are threads that take units and are near the memory of node n.
  explicit WorkBoard(uint32_t nodes = 0) : nodes_(nodes) {}

  /// Owner only. Puts an execution of at least one unit up; false when all slots are taken.
  bool Post(Execution* execution);
  /// Owner only.
  bool has_room() const { return free_slots_ != 0; }
  /// Owner only. Frees the slot of an execution that finished.
  void Retire(Execution* execution);

  /// Takes one unit of an execution in one of `slots`, if there is any: of the tenant whose turn it
  /// is.
  std::optional<Unit> Take(uint64_t slots, Cursor& cursor);
  /// Time was spent for the tenant of this place, by its weight.
  void Charge(int place, double nanoseconds) { turns_.Charge(place, nanoseconds); }
  /// Whether the tenant of this place would have the next turn, had it work.
  bool IsFirst(int place) const {
    return turns_.IsFirst(place, places_.load(std::memory_order_relaxed));
  }

  /// The slots whose execution has its memory on a node other than `node`, with threads of its own.
  /// A preference, and no more: it may be out of date. None for `node` < 0.
  uint64_t slots_away_from(int node) const {
    return node < 0 ? 0 : away_from_[static_cast<size_t>(node)].load(std::memory_order_relaxed);
  }

  /// Takes all unclaimed units of an execution of which the caller holds a unit (or is the owner).
  uint32_t TakeRest(const Execution& execution);

  /// Whether any execution has unclaimed units. Sequentially consistent, see Parking.
  bool AnyWork() const { return active_.load(std::memory_order_seq_cst) != 0; }

  /// The same for all but the execution of which the caller holds a unit, and those of one unit
  /// that the owner runs itself.
  bool AnyWorkBeside(const Execution& execution) const;

  /// Owner only: the slots of executions that it may help.
  uint64_t helpable_slots() const { return helpable_slots_; }
  /// Owner only: those of one unit, which nobody else comes for.
  uint64_t slots_left_to_owner() const { return left_to_owner_.load(std::memory_order_relaxed); }

 private:
  struct alignas(64) Slot {
    // High half: first unclaimed unit. Low half: how many.
    std::atomic<uint64_t> unclaimed{0};
    // Written by the owner before `unclaimed`, read after a claim.
    Execution* execution = nullptr;
  };

  std::optional<Unit> TakeAmong(uint64_t active, Cursor& cursor);
  std::optional<Unit> TakeFrom(int slot, bool from_the_end);
  void NoteTenant(uint64_t bit, const Execution& execution);
  void ClearActive(int slot);
  void NotePlace(uint64_t bit, int node);

  // Bit s: slot s may have unclaimed units. Set by the owner before there are any; cleared by who
  // takes the last one, before that unit is completed and so never for the slot's next execution.
  alignas(64) std::atomic<uint64_t> active_{0};
  // Bit s: what is in slot s is helpable and one unit. Written by the owner before the slot's bit
  // in active_ is.
  std::atomic<uint64_t> left_to_owner_{0};
  const uint32_t nodes_;
  // By node, bit s: what is in slot s lies on another one. Written by the owner when it posts.
  std::array<std::atomic<uint64_t>, kMaxNodes> away_from_{};
  // By place of a tenant, bit s: what is in slot s is that tenant's. Bit p of places_: place p has
  // some. Written by the owner when it posts and retires.
  std::array<std::atomic<uint64_t>, TenantPlaces::kPlaces> slots_of_{};
  std::atomic<uint32_t> places_{0};
  TenantTurns turns_;
  std::array<Slot, kSlots> slots_;
  alignas(64) uint64_t free_slots_ = ~uint64_t{0};
  uint64_t helpable_slots_ = 0;
};

/// Executions that ended, on their way to the owner: many push, one takes, in the order of pushing.
class FinishedList {
 public:
  /// Any thread. The execution is the owner's from here on.
  void Push(Execution* execution);
  /// Owner only; nullptr when there is none.
  Execution* Pop();
  /// Owner only: whether Pop would return one.
  bool any() const {
    return oldest_ != nullptr || pushed_.load(std::memory_order_relaxed) != nullptr;
  }

 private:
  // Newest first. Popping takes the whole list, so no node can come back under a pusher's feet.
  alignas(64) std::atomic<Execution*> pushed_{nullptr};
  alignas(64) Execution* oldest_ = nullptr;  // Of the owner, oldest first.
};

}  // namespace harmonaize

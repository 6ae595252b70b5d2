#include "src/executor/host/work_board.h"

#include <bit>

namespace harmonaize {
namespace {

// Layout of Slot::claims.
constexpr int kUnitBits = 28;
constexpr int kPermitShift = 2 * kUnitBits;
constexpr uint64_t kOneUnit = 1;
constexpr uint64_t kOneFurther = uint64_t{1} << kUnitBits;
constexpr uint64_t kOnePermit = uint64_t{1} << kPermitShift;
constexpr uint64_t kUnitMask = kOneFurther - 1;

// "First" may come to be the number of units.
static_assert(kMostUnits <= kUnitMask);
// All threads together: the workers and the owner.
static_assert(kMaxWorkers + 1 < WorkBoard::kUncounted);

constexpr uint64_t Pack(int permits, uint64_t count) {
  return static_cast<uint64_t>(permits) << kPermitShift | count;
}
constexpr int Permits(uint64_t word) {
  return static_cast<int>(word >> kPermitShift);
}
constexpr uint32_t First(uint64_t word) {
  return static_cast<uint32_t>(word >> kUnitBits & kUnitMask);
}
constexpr uint32_t Count(uint64_t word) {
  return static_cast<uint32_t>(word & kUnitMask);
}
constexpr bool IsClaimable(uint64_t word) {
  return Count(word) != 0 && Permits(word) != 0;
}

// Returns the word after one unit was taken, with a permit where they are counted.
constexpr uint64_t AfterClaim(uint64_t word, bool from_the_end) {
  if (!from_the_end) word += kOneFurther;
  if (Permits(word) != WorkBoard::kUncounted) word -= kOnePermit;
  return word - kOneUnit;
}

// Returns the permits that an execution is posted with.
int PermitsFor(const Execution& execution) {
  if (execution.bound().most_workers == 0) return WorkBoard::kUncounted;
  const int threads = execution.most_threads();
  return static_cast<uint32_t>(threads) < execution.units() ? threads : WorkBoard::kUncounted;
}

}  // namespace

bool WorkBoard::Post(Execution* execution) {
  if (free_slots_ == 0) return false;
  const int index = std::countr_zero(free_slots_);
  const uint64_t bit = uint64_t{1} << index;
  free_slots_ &= ~bit;
  if (execution->bound_.helpable) helpable_slots_ |= bit;
  const int permits = PermitsFor(*execution);
  if (permits != kUncounted) counted_slots_ |= bit;
  // Relaxed: a thread that finds the bit in active_, by the operation below or a later one, sees
  // this too. Only the owner writes it.
  const uint64_t left_to_owner = left_to_owner_.load(std::memory_order_relaxed);
  const bool is_left = execution->bound_.helpable && execution->units() == 1;
  left_to_owner_.store(is_left ? left_to_owner | bit : left_to_owner & ~bit,
                       std::memory_order_relaxed);
  NotePlace(bit, execution->bound_.node);
  NoteTenant(bit, *execution);
  execution->slot_ = index;
  execution->pending_.store(execution->units(), std::memory_order_relaxed);
  Slot& slot = slots_[static_cast<size_t>(index)];
  slot.execution = execution;
  // The bit is set before the units. The thread that takes the last unit clears it; even a thread
  // with an old mask must not do so before the bit is set, or it would stay set for ever.
  // Sequentially consistent for the sake of Parking, where a bit without units does no harm.
  active_.fetch_or(bit, std::memory_order_seq_cst);
  // Release: a thread that claims a unit (acquire) sees the slot, the binding and the pending
  // count. Claims are read-modify-writes, so those after the first see them too.
  slot.claims.store(Pack(permits, execution->units()), std::memory_order_release);
  return true;
}

// All relaxed: a thread with an old mask takes a unit in another order, no more.
void WorkBoard::NotePlace(uint64_t bit, int node) {
  const bool has_threads = node >= 0 && node < kMaxNodes && (nodes_ >> node & 1) != 0;
  for (uint32_t left = nodes_; left != 0; left &= left - 1) {
    const int other = std::countr_zero(left);
    std::atomic<uint64_t>& away = away_from_[static_cast<size_t>(other)];
    const uint64_t before = away.load(std::memory_order_relaxed);
    const uint64_t after = has_threads && other != node ? before | bit : before & ~bit;
    if (after != before) away.store(after, std::memory_order_relaxed);
  }
}

// Relaxed for the same reason: with an old mask another tenant has its turn.
void WorkBoard::NoteTenant(uint64_t bit, const Execution& execution) {
  const auto place = static_cast<size_t>(execution.place_);
  const uint64_t slots = slots_of_[place].load(std::memory_order_relaxed);
  slots_of_[place].store(slots | bit, std::memory_order_relaxed);
  if (slots != 0) return;
  turns_.Begin(execution.place_);
  places_.fetch_or(uint32_t{1} << place, std::memory_order_relaxed);
}

void WorkBoard::Retire(Execution* execution) {
  const uint64_t bit = uint64_t{1} << execution->slot_;
  const auto place = static_cast<size_t>(execution->place_);
  const uint64_t slots = slots_of_[place].load(std::memory_order_relaxed) & ~bit;
  slots_of_[place].store(slots, std::memory_order_relaxed);
  if (slots == 0) places_.fetch_and(~(uint32_t{1} << place), std::memory_order_relaxed);
  helpable_slots_ &= ~bit;
  counted_slots_ &= ~bit;
  free_slots_ |= bit;
  execution->slot_ = -1;
}

std::optional<WorkBoard::Unit> WorkBoard::Take(uint64_t slots, Cursor& cursor) {
  // Relaxed: a stale mask costs a search in vain, or another round; a claim orders all that
  // follows.
  const uint64_t active = active_.load(std::memory_order_relaxed) & slots;
  const uint32_t places = places_.load(std::memory_order_relaxed);
  if (active == 0) return std::nullopt;
  uint32_t waiting = 0;
  for (uint32_t left = places; left != 0; left &= left - 1) {
    const int place = std::countr_zero(left);
    const uint64_t own = slots_of_[static_cast<size_t>(place)].load(std::memory_order_relaxed);
    if ((own & active) != 0) waiting |= uint32_t{1} << place;
  }
  if (waiting != 0) {
    const int place = turns_.Next(waiting);
    const uint64_t own = slots_of_[static_cast<size_t>(place)].load(std::memory_order_relaxed);
    std::optional<Unit> unit = TakeAmong(active & own, cursor);
    if (unit) return unit;
  }
  return TakeAmong(active, cursor);  // others were faster, or the masks are old
}

std::optional<WorkBoard::Unit> WorkBoard::TakeAmong(uint64_t active, Cursor& cursor) {
  uint64_t candidates = std::rotr(active, cursor.slot);
  while (candidates != 0) {
    const int slot = (cursor.slot + std::countr_zero(candidates)) % kSlots;
    candidates &= candidates - 1;
    const uint64_t word = Claim(slot, cursor.from_the_end);
    if (word == 0) continue;
    cursor.slot = (slot + 1) % kSlots;
    const uint64_t next = AfterClaim(word, cursor.from_the_end);
    Execution* const execution = slots_[static_cast<size_t>(slot)].execution;
    return Unit{execution, First(word) + (cursor.from_the_end ? Count(next) : 0), Count(next),
                Permits(next), execution->place_};
  }
  return std::nullopt;
}

// Takes a unit of the slot. Returns the slot's word before that; 0 if there was none to take.
uint64_t WorkBoard::Claim(int index, bool from_the_end) {
  Slot& slot = slots_[static_cast<size_t>(index)];
  uint64_t word = slot.claims.load(std::memory_order_relaxed);
  while (IsClaimable(word)) {
    const uint64_t next = AfterClaim(word, from_the_end);
    // Acquire: see Post, and UpdateActive.
    if (!slot.claims.compare_exchange_weak(word, next, std::memory_order_acquire,
                                           std::memory_order_relaxed)) {
      continue;
    }
    if (!IsClaimable(next)) EndClaims(index, Permits(next) != kUncounted);
    return word;
  }
  return 0;
}

void WorkBoard::AddPermit(const Unit& unit) {
  const int index = unit.execution->slot_;
  // Release and acquire: see UpdateActive.
  const uint64_t before =
      slots_[static_cast<size_t>(index)].claims.fetch_add(kOnePermit, std::memory_order_acq_rel);
  if (Count(before) == 0 || Permits(before) != 0) return;
  // The tenant had nothing to do as far as it may be served. Without this it would save up time for
  // as long as its bound lasts, and then have all threads for itself.
  turns_.Begin(unit.place);
  UpdateActive(index, true);
}

// Makes the slot's bit in active_ say whether units of the slot are claimable. Requires: the
// calling thread has just changed the slot's word, and made them so. Where permits are counted that
// goes back and forth, and threads that change the word one after the other may come to the bit in
// another order. So each looks at the word once more after it has written the bit, by a
// read-modify-write:
//
// - If that comes before another thread's change of the word, the other one's change reads from it,
//   directly or through further read-modify-writes. Release here and acquire there order this
//   thread's write of the bit before the other thread's.
// - If it comes after the other thread's change, it sees that, and writes the bit anew.
//
// Either way the last write of the bit tells what the last change of the word has left. A bit that
// stayed set would keep workers from sleeping for ever, and one that stayed clear would leave units
// behind.
//
// All of this happens before the calling thread completes its units, and so never to the bit of the
// slot's next execution. Setting it is sequentially consistent for the sake of Parking, as in Post.
void WorkBoard::UpdateActive(int index, bool claimable) {
  const uint64_t bit = uint64_t{1} << index;
  std::atomic<uint64_t>& claims = slots_[static_cast<size_t>(index)].claims;
  for (;;) {
    if (claimable) {
      active_.fetch_or(bit, std::memory_order_seq_cst);
    } else {
      active_.fetch_and(~bit, std::memory_order_seq_cst);
    }
    const bool now = IsClaimable(claims.fetch_add(0, std::memory_order_acq_rel));
    if (now == claimable) return;
    claimable = now;
  }
}

// A place counts if it has executions, except those whose permits are all taken: it has no turn
// before one comes back.
bool WorkBoard::IsFirst(int place) const {
  const uint64_t blocked = counted_slots_ & ~active_.load(std::memory_order_relaxed);
  const uint32_t places = places_.load(std::memory_order_relaxed);
  if (blocked == 0) return turns_.IsFirst(place, places);
  uint32_t waiting = 0;
  for (uint32_t left = places; left != 0; left &= left - 1) {
    const int other = std::countr_zero(left);
    const uint64_t own = slots_of_[static_cast<size_t>(other)].load(std::memory_order_relaxed);
    if ((own & ~blocked) != 0) waiting |= uint32_t{1} << other;
  }
  return turns_.IsFirst(place, waiting);
}

bool WorkBoard::AnyWorkBeside(const Execution& execution) const {
  // Sequentially consistent, see Executor::WakeForLeft. In this order, see Post.
  const uint64_t active = active_.load(std::memory_order_seq_cst);
  const uint64_t left_to_owner = left_to_owner_.load(std::memory_order_relaxed);
  return (active & ~left_to_owner & ~(uint64_t{1} << execution.slot_)) != 0;
}

uint32_t WorkBoard::TakeRest(const Execution& execution) {
  Slot& slot = slots_[static_cast<size_t>(execution.slot_)];
  // Permits stay as they are: threads that have some give them back. Release and acquire: see
  // UpdateActive.
  const uint64_t word =
      slot.claims.fetch_and(~uint64_t{0} << kPermitShift, std::memory_order_acq_rel);
  const uint32_t taken = Count(word);
  if (taken == 0) return 0;
  EndClaims(execution.slot_, Permits(word) != kUncounted);
  return taken;
}

// Clears the slot's bit in active_ after the calling thread has made its units unclaimable.
void WorkBoard::EndClaims(int slot, bool counted) {
  if (counted) return UpdateActive(slot, false);
  // Relaxed: ordered before the next Post to this slot by the completion of the unit just taken.
  active_.fetch_and(~(uint64_t{1} << slot), std::memory_order_relaxed);
}

void FinishedList::Push(Execution* execution) {
  Execution* head = pushed_.load(std::memory_order_relaxed);
  do {
    execution->next_ = head;
    // Release: the owner sees all that was done to the execution.
  } while (!pushed_.compare_exchange_weak(head, execution, std::memory_order_release,
                                          std::memory_order_relaxed));
}

Execution* FinishedList::Pop() {
  if (oldest_ == nullptr) {
    // Loading before swapping leaves the cache line with its writers while there is nothing.
    if (pushed_.load(std::memory_order_relaxed) == nullptr) return nullptr;
    // Acquire: pairs with the release of every Push, which all head one release sequence.
    Execution* newest = pushed_.exchange(nullptr, std::memory_order_acquire);
    while (newest != nullptr) {
      Execution* older = newest->next_;
      newest->next_ = oldest_;
      oldest_ = newest;
      newest = older;
    }
  }
  Execution* execution = oldest_;
  oldest_ = execution->next_;
  execution->next_ = nullptr;
  return execution;
}

}  // namespace harmonaize

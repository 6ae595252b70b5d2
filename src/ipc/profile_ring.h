#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "src/ipc/profile_record.h"

namespace harmonaize {

// A ring in shared memory by which one process tells the daemon of profiler events. The process
// makes the memory, writes to all of its pages once, and sends it with an OpenProfileRequest. Its
// threads write, and one thread of the daemon reads. Nobody waits: a writer that finds the ring
// full counts the event as lost.
//
//     writer                                     reader
//     place = tail                               (its own copy of head)
//     if (place - head == slots) ++lost, end     turn of slot[head]
//     tail: place -> place + 1, or begin anew    unless head + 1: nothing more is there
//     words of slot[place]                       words of slot[head]
//     turn of slot[place] = place + 1            ++head
//
// The order of the accesses:
// - `turn` is stored with release and loaded with acquire: a reader that finds place + 1 finds the
//   words that were written before. The words are atomic, relaxed, because a hostile writer may
//   change them meanwhile.
// - `head` is stored with release and loaded with acquire. A writer has place P only after it has
//   loaded a head above P - slots, in the same attempt. The reader stored that head after it had
//   loaded the words of place P - slots, so these loads come before the writer's stores.
// - `tail` needs no order. Exactly one writer gets each place, because the exchange is atomic; what
//   it does with the place is ordered by `head` and `turn`.
//
// A writer that dies between its place and its turn leaves a hole. The reader skips it after
// kProfileHoleNanoseconds. A writer that was only delayed for so long may then write into a place
// that another one has, and both records may be mixed: the reader checks every record.

/// Slots of a ring, a power of two. They take 1 MiB of memory. See docs/nccl-profiler.md for the
/// rate of events that follows from this and from the reader's pauses.
inline constexpr uint64_t kProfileSlots = 16384;

/// Age, in nanoseconds, at which the reader takes a place that was not written for a hole. A thread
/// writes a record within a microsecond, if it is not put to sleep in between.
inline constexpr uint64_t kProfileHoleNanoseconds = 1'000'000'000;

struct alignas(64) ProfileSlot {
  std::atomic<uint64_t> turn;
  std::atomic<uint64_t> words[kProfileWords];
};
static_assert(sizeof(ProfileSlot) == 64);

struct ProfileRing {
  alignas(64) std::atomic<uint64_t> tail;  ///< Places that writers have taken.
  alignas(
      64) std::atomic<uint64_t> head;  ///< Places that the daemon has read; it never loads this.
  alignas(64) std::atomic<uint64_t> lost;  ///< Events that the writers could not tell of.
  ProfileSlot slots[kProfileSlots];
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

/// Counts an event of which the daemon does not hear. Thread: any of the process's.
inline void CountLostProfileEvent(ProfileRing* ring) noexcept {
  ring->lost.fetch_add(1, std::memory_order_relaxed);
}

/// Writes a record. Returns false if the ring is full. Takes no lock and makes no system call.
/// Thread: any of the process's.
inline bool WriteProfileWords(ProfileRing* ring, const ProfileWords& words) noexcept {
  uint64_t place = ring->tail.load(std::memory_order_relaxed);
  for (;;) {
    const uint64_t head = ring->head.load(std::memory_order_acquire);
    // Others took places meanwhile, which the daemon has read already.
    if (head > place) {
      const uint64_t tail = ring->tail.load(std::memory_order_relaxed);
      if (tail == place) return false;  // The program has overwritten the ring.
      place = tail;
      continue;
    }
    if (place - head >= kProfileSlots) return false;
    if (ring->tail.compare_exchange_weak(place, place + 1, std::memory_order_relaxed)) break;
  }
  ProfileSlot& slot = ring->slots[place % kProfileSlots];
  for (size_t i = 0; i < kProfileWords; ++i) {
    slot.words[i].store(words[i], std::memory_order_relaxed);
  }
  slot.turn.store(place + 1, std::memory_order_release);
  return true;
}

/// Reads a ring that a process can write to at any time. Whatever stands there, a call reads each
/// slot once at most. Thread: one at a time.
class ProfileRingReader {
 public:
  /// Requires: the ring outlives the reader.
  explicit ProfileRingReader(ProfileRing* ring) : ring_(ring) {}

  /// Copies the next records into `records`, up to as many as fit there. Returns how many.
  /// `now_ns` is of the monotonic clock.
  size_t Take(std::span<ProfileWords> records, uint64_t now_ns);
  /// Returns the number of events that were lost since the last call, as far as the process tells.
  uint64_t TakeLost();

 private:
  void SkipHole(uint64_t now_ns);

  ProfileRing* const ring_;
  uint64_t head_ = 0;
  uint64_t hole_since_ns_ = 0;  ///< When `head_` was first found not to be written; 0: it is not.
  uint64_t told_lost_ = 0;      ///< ProfileRing::lost, as of the last call.
  uint64_t skipped_ = 0;        ///< Holes that TakeLost has not returned.
};

}  // namespace harmonaize

#pragma once

#include <sched.h>

#include <cstdint>

#include "src/base/clock.h"

namespace harmonaize {

/// Pauses between two looks of a spinning thread: leaves the core to its other thread for a moment.
inline void PauseBriefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Learns from a thread's yields whether other threads want its processor. These may be unknown to
/// the caller, such as other jobs, or daemons of emulated hosts.
class GivingWay {
 public:
  /// Yields. Takes the clock's last reading, and returns its reading after the yield.
  uint64_t GiveWay(uint64_t now_ns) {
    sched_yield();
    const uint64_t end_ns = MonotonicNanoseconds();
    if (end_ns - now_ns > kSomebodyRanNanoseconds) {
      alone_ = 0;
    } else if (alone_ < kAlone) {
      ++alone_;
    }
    return end_ns;
  }
  /// Returns whether other threads ran in one of the last few yields.
  bool others_want_it() const { return alone_ < kAlone; }

 private:
  /// A yield longer than this many nanoseconds means that another thread ran: the call by itself
  /// takes half a microsecond at most, and a switch there and back takes more.
  static constexpr uint64_t kSomebodyRanNanoseconds = 1500;
  /// Number of yields in a row, without another thread running, after which the thread counts as
  /// alone on its processor.
  static constexpr int kAlone = 16;
  int alone_ = kAlone;
};

/// Returns the calling thread's GivingWay.
inline GivingWay& ThisThreadGivingWay() {
  static thread_local GivingWay giving_way;
  return giving_way;
}

/// Yields between pieces of work, so that other threads, which may need the processor only for a
/// moment, can run. If they keep it, as threads that compute all the time do, the next yield comes
/// later: the kernel's scheduler gives them their share as well.
class Interludes {
 public:
  void NoteWork(uint64_t nanoseconds) { stint_ns_ += nanoseconds; }
  void NoteRest() { stint_ns_ = 0; }
  /// Yields if it is time to.
  void LetOthersRun() {
    if (stint_ns_ >= next_ns_) LetOthersRunNow();
  }
  void LetOthersRunNow() {
    const uint64_t begin = MonotonicNanoseconds();
    sched_yield();
    const uint64_t took_ns = MonotonicNanoseconds() - begin;
    next_ns_ = took_ns < kShort ? kStint : kLongStint;
    stint_ns_ = 0;
  }
  /// Returns whether the last yield was short.
  bool are_short() const { return next_ns_ == kStint; }

 private:
  /// Nanoseconds of work between yields after a short yield.
  static constexpr uint64_t kStint = 20'000;
  /// Nanoseconds of work between yields after a long one.
  static constexpr uint64_t kLongStint = 1'000'000;
  /// A yield below this many nanoseconds counts as short. The limit must exceed another yielding
  /// thread's own stint, or both would stop yielding.
  static constexpr uint64_t kShort = 2 * kLongStint;

  uint64_t stint_ns_ = 0;  // nanoseconds of work since the last yield
  uint64_t next_ns_ = kStint;
};

/// Spaces the looks of one wait. A thread with a processor of its own pauses between looks, which
/// is no system call. If there are more threads than processors, or the wait is no longer short, it
/// yields, so that the awaited thread can run. A thread that spins there would keep the processor
/// from that one until the kernel preempts it, milliseconds later.
class Pacer {
 public:
  /// `crowded`: the caller knows of more threads than processors. `crowded_pauses`: number of looks
  /// for which the thread keeps its processor nevertheless, because the answer may be on its way
  /// already; a yield costs about a microsecond. Serves only the calling thread.
  explicit Pacer(bool crowded, int crowded_pauses = kCrowdedPauses)
      : giving_way_(&ThisThreadGivingWay()),
        pauses_left_(crowded || giving_way_->others_want_it() ? crowded_pauses : kPauses) {}

  /// Pauses or yields. Takes the clock's last reading, and returns its reading afterwards.
  uint64_t Pause(uint64_t now_ns) {
    if (pauses_left_ <= 0) return giving_way_->GiveWay(now_ns);
    --pauses_left_;
    PauseBriefly();
    return MonotonicNanoseconds();
  }

 private:
  /// Pauses before the first yield: with a look at the clock beside each, some five microseconds.
  static constexpr int kPauses = 100;
  /// Pauses if crowded, between looks that are a load from memory and one at the clock.
  static constexpr int kCrowdedPauses = 8;

  GivingWay* giving_way_;
  int pauses_left_;
};

}  // namespace harmonaize

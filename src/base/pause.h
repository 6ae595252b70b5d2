#pragma once

#include <sched.h>

#include <cstdint>

#include "src/base/clock.h"

namespace harmonaize {

/// Between two looks of a thread that spins: leaves the core to its other thread for a moment.
inline void PauseBriefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// What a thread has learnt by giving way: whether others want its processor. It may be threads
/// that the caller knows nothing of, such as other jobs, or daemons of emulated hosts.
class GivingWay {
 public:
  /// `now_ns`: what the clock has just said. What it says afterwards.
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
  /// Whether one of the last few times that it gave way somebody else ran.
  bool others_want_it() const { return alone_ < kAlone; }

 private:
  /// The call by itself takes half a microsecond at most; a switch there and back takes more.
  static constexpr uint64_t kSomebodyRanNanoseconds = 1500;
  static constexpr int kAlone = 16;

  int alone_ = kAlone;
};

/// The calling thread's.
inline GivingWay& ThisThreadGivingWay() {
  static thread_local GivingWay giving_way;
  return giving_way;
}

/// Between pieces of work a thread lets others have its processor, who may need it for a moment
/// only. Where they keep it, as what computes all the time does, the next time comes later: the
/// kernel's scheduler gives them their share as well.
class Interludes {
 public:
  void NoteWork(uint64_t nanoseconds) { stint_ns_ += nanoseconds; }
  void NoteRest() { stint_ns_ = 0; }
  /// When it is time.
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
  /// Whether the last one was.
  bool are_short() const { return next_ns_ == kStint; }

 private:
  static constexpr uint64_t kStint = 20'000;
  /// What another thread that does this may take is short, or they would teach each other to keep
  /// the processor.
  static constexpr uint64_t kLongStint = 1'000'000;
  static constexpr uint64_t kShort = 2 * kLongStint;

  uint64_t stint_ns_ = 0;  // of work, since the last one
  uint64_t next_ns_ = kStint;
};

/// Spaces the looks of one wait. With a processor of its own a thread pauses between them, which is
/// no system call. Where threads are more than processors, or the wait is no longer a short one, it
/// gives way, so that who brings what it waits for can run: a thread that spins there keeps the
/// processor from that one until the kernel's patience ends, milliseconds later.
class Pacer {
 public:
  /// `crowded`: the caller knows of more threads than processors. For the calling thread.
  /// `crowded_pauses`: for how many looks it nevertheless keeps its processor, as the answer may be
  /// on its way already; giving way costs about a microsecond.
  explicit Pacer(bool crowded, int crowded_pauses = kCrowdedPauses)
      : giving_way_(&ThisThreadGivingWay()),
        pauses_left_(crowded || giving_way_->others_want_it() ? crowded_pauses : kPauses) {}

  /// `now_ns`: what the clock has just said. What it says afterwards.
  uint64_t Pause(uint64_t now_ns) {
    if (pauses_left_ <= 0) return giving_way_->GiveWay(now_ns);
    --pauses_left_;
    PauseBriefly();
    return MonotonicNanoseconds();
  }

 private:
  /// With a look at the clock beside each, some five microseconds.
  static constexpr int kPauses = 100;
  /// Of looks that are a load from memory and one at the clock.
  static constexpr int kCrowdedPauses = 8;

  GivingWay* giving_way_;
  int pauses_left_;
};

}  // namespace harmonaize

#pragma once

#include <sched.h>

namespace harmonaize {

/// Between two looks of a thread that spins: leaves the core to its other thread for a moment.
inline void PauseBriefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Spaces the looks of one wait. With a processor of its own a thread pauses between them, which is
/// no system call. Where threads are more than processors, or the wait is no longer a short one, it
/// gives way, so that who brings what it waits for can run: a thread that spins there keeps the
/// processor from that one until the kernel's patience ends, milliseconds later.
class Pacer {
 public:
  explicit Pacer(bool crowded) : pauses_left_(crowded ? kCrowdedPauses : kPauses) {}

  void Pause() {
    if (pauses_left_ > 0) {
      --pauses_left_;
      PauseBriefly();
    } else {
      sched_yield();
    }
  }

 private:
  /// With a look at the clock beside each, some five microseconds.
  static constexpr int kPauses = 100;
  /// The answer may be on its way already; giving way costs as much as a dozen looks.
  static constexpr int kCrowdedPauses = 8;

  int pauses_left_;
};

}  // namespace harmonaize

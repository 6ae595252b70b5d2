#pragma once

namespace harmonaize {

/// Between two looks of a thread that spins: leaves the core to its other thread for a moment.
inline void PauseBriefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace harmonaize

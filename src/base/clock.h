#pragma once

#include <chrono>
#include <cstdint>

namespace harmonaize {

/// Returns nanoseconds of the monotonic clock, the same in every process of the host.
inline uint64_t MonotonicNanoseconds() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count());
}

}  // namespace harmonaize

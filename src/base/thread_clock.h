#pragma once

#include <time.h>

#include <cstdint>

namespace harmonaize {

/// Returns nanoseconds of a processor that the calling thread has used.
inline int64_t ThreadNanoseconds() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return int64_t{used.tv_sec} * 1'000'000'000 + used.tv_nsec;
}

}  // namespace harmonaize

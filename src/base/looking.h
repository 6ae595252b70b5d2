#pragma once

#include <cstddef>
#include <cstdint>

namespace harmonaize {

/// How a thread waits that could look for what it awaits, or sleep until it is woken.
enum class Looking : uint32_t {
  kAsItPays = 0,  ///< It looks for as long as that costs less than being woken (WaitEstimate).
  kForLong,       ///< It looks for kLongLookNanoseconds, whatever that costs the processor.
  kNever,         ///< It sleeps at once.
};

inline constexpr size_t kLookingCount = 3;

/// How long a thread looks that looks for long, in nanoseconds: as long as the pauses between the
/// operations of a job that cares for latency.
inline constexpr uint64_t kLongLookNanoseconds = 2'000'000;

}  // namespace harmonaize

#pragma once

#include <cstdint>

namespace harmonaize {

/// Returns whether two ranges of bytes have one in common. An empty range has none.
inline bool Overlap(const void* first, uint64_t first_bytes, const void* second,
                    uint64_t second_bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(first);
  const auto other = reinterpret_cast<uintptr_t>(second);
  // Distances instead of ends, which may lie beyond the last address.
  return begin < other ? first_bytes > other - begin && second_bytes > 0
                       : second_bytes > begin - other && first_bytes > 0;
}

}  // namespace harmonaize

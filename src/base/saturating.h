#pragma once

#include <cstdint>

namespace harmonaize {

/// Returns the sum, or the largest number where the sum would be above it.
constexpr uint64_t AddUpTo(uint64_t one, uint64_t other) {
  return one > UINT64_MAX - other ? UINT64_MAX : one + other;
}

}  // namespace harmonaize

#pragma once

#include <cstdint>

namespace harmonaize {

/// Returns a hash that is the same on every machine (splitmix64; Steele, Lea and Flood, 2014).
constexpr uint64_t MixBits(uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

}  // namespace harmonaize

#pragma once

#include <cstddef>
#include <cstdint>

namespace harmonaize {

/// Address of one rank's buffer, in memory that this process shares with its owner, or in its own.
/// A plain value: it does not own the mapping, which its maker keeps while the buffer is in use.
struct Buffer {
  std::byte* mapped = nullptr;  ///< nullptr: there is no buffer.

  bool is_mapped() const { return mapped != nullptr; }

  /// Returns the address `bytes` further on in the same buffer.
  Buffer At(uint64_t bytes) const { return Buffer{mapped + bytes}; }

  /// Returns whether both name the same bytes. Memory that is mapped twice is not recognized, so
  /// one memory must be named one way.
  bool SamePlace(const Buffer& other) const { return mapped == other.mapped; }
};

}  // namespace harmonaize

#pragma once

#include <cstddef>
#include <cstdint>

namespace harmonaize {

/// Where one rank's buffer lies: in memory that this process shares with its owner, or in its own.
/// A plain value: it does not own the mapping, whoever made it keeps that while the buffer is in
/// use.
struct Buffer {
  std::byte* mapped = nullptr;  ///< nullptr: there is no buffer.

  bool is_mapped() const { return mapped != nullptr; }

  /// The place `bytes` further on in the same buffer.
  Buffer At(uint64_t bytes) const { return Buffer{mapped + bytes}; }

  /// Whether both name the same bytes. Memory that is mapped twice is not recognized: one memory
  /// must be named one way.
  bool SamePlace(const Buffer& other) const { return mapped == other.mapped; }
};

}  // namespace harmonaize

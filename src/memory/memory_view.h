#pragma once

#include <cstddef>
#include <cstdint>

namespace harmonaize {

/// Kinds of memory, by what reaches them.
enum class MemoryKind : uint8_t {
  kHost,    ///< Processors read and write it, and system calls do.
  kDevice,  ///< A GPU's own memory: only the GPU and its driver reach it.
};

/// Place of one rank's buffer in memory that this process has mapped. A plain value that does not
/// own the mapping: the code that made it keeps the mapping while the buffer is in use.
struct MemoryView {
  std::byte* address = nullptr;  ///< nullptr: there is no buffer.
  MemoryKind kind = MemoryKind::kHost;

  bool exists() const { return address != nullptr; }

  /// Returns the place `bytes` further on in the same buffer.
  MemoryView At(uint64_t bytes) const { return {address + bytes, kind}; }

  /// Returns whether both name the same bytes. Memory that is mapped twice is not recognized, so
  /// one memory must be named one way.
  bool SamePlace(const MemoryView& other) const { return address == other.address; }
};

}  // namespace harmonaize

#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace harmonaize {

/// Where one rank's buffer can be reached from this process. A plain value: it owns neither the
/// mapping nor the process, whoever made it keeps both alive while the buffer is in use.
///
/// A buffer with `mapped` set lies in memory of this process (shared or its own) and is used in
/// place. Without it the buffer is private memory of `process`, at `address` there, and every byte
/// is carried by process_memory.h.
struct Buffer {
  std::byte* mapped = nullptr;
  pid_t process = 0;
  uint64_t address = 0;

  bool is_mapped() const { return mapped != nullptr; }

  /// The place `bytes` further on in the same buffer.
  Buffer At(uint64_t bytes) const {
    return is_mapped() ? Buffer{mapped + bytes, process, address}
                       : Buffer{nullptr, process, address + bytes};
  }

  /// Whether both name the same bytes. A private buffer that is also mapped here under another
  /// Buffer is not recognized: one memory must be named one way.
  bool SamePlace(const Buffer& other) const {
    if (is_mapped() || other.is_mapped()) return mapped == other.mapped;
    return process == other.process && address == other.address;
  }
};

}  // namespace harmonaize

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "src/client/memory.h"
#include "src/client/session.h"
#include "src/ipc/session_segment.h"

namespace harmonaize {

/// Remembers where the buffers used last lie among the registered regions: programs use the same
/// ones again and again, and a look into the table costs as much as a small operation. For one
/// session; not thread safe.
class BufferLocator {
 public:
  /// As RegionTable::LocateShareable; kNoBuffer also where that fails.
  BufferReference Locate(Session& session, const void* address, uint64_t bytes) {
    const uint64_t generation = RegionTable::Get().generation();
    for (const Entry& entry : entries_) {
      if (entry.address == address && entry.bytes == bytes && entry.generation == generation) {
        return entry.reference;
      }
    }
    const Result<BufferReference> found =
        RegionTable::Get().LocateShareable(session, address, bytes);
    const BufferReference reference = found.ok() ? *found : BufferReference{};
    entries_[next_++ % entries_.size()] = {address, bytes, generation, reference};
    return reference;
  }

 private:
  struct Entry {
    const void* address = nullptr;
    uint64_t bytes = 0;
    uint64_t generation = 0;
    BufferReference reference;
  };
  std::array<Entry, 4> entries_ = {};
  size_t next_ = 0;
};

}  // namespace harmonaize

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "src/base/status.h"
#include "src/client/session/session.h"
#include "src/ipc/session_segment.h"

namespace harmonaize {

/// Shared buffers through which private memory travels if the daemon may not reach it, or if a copy
/// by the rank is cheaper than the daemon's system call. Kept for reuse by size class. There is one
/// pool a process. Thread: any.
class StagingPool {
 public:
  static StagingPool& Get();

  /// Returns a shared buffer of at least `bytes` bytes that has no other user until Release.
  Result<std::byte*> Acquire(uint64_t bytes);
  void Release(std::byte* buffer, uint64_t bytes);

 private:
  /// The buffers of one size class.
  struct Class {
    std::vector<std::byte*> free;
    uint64_t bytes = 0;  // of all buffers that were ever made
  };

  std::mutex mutex_;
  std::map<uint64_t, Class> classes_;  // by the bytes of a buffer
};

/// A buffer of the pool, and where the daemon finds it.
struct StagingBuffer {
  std::byte* memory = nullptr;
  BufferReference reference;
};
/// Acquires a buffer that the session's daemon can map. Errors: those of Acquire and of
/// RegionTable::Locate.
Result<StagingBuffer> AcquireFor(Session& session, uint64_t bytes);

}  // namespace harmonaize

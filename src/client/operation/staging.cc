#include "src/client/operation/staging.h"

#include <algorithm>
#include <bit>

#include "src/client/memory/memory.h"

namespace harmonaize {
namespace {

/// Bytes of the smallest class of buffers.
constexpr uint64_t kSmallestClass = 4096;
/// Bytes of the memory that is cut into buffers of one class at once: at first and at least, since
/// bringing in a MiB of pages takes a millisecond,
constexpr uint64_t kFirstSlabBytes = 64 << 10;
/// and at most, doubled from one to the next in between. One region serves many small buffers, so
/// that a process with many communicators does not hold thousands of regions.
constexpr uint64_t kLargestSlabBytes = 1 << 20;

/// Buffers of larger classes go back to the kernel at once: each was needed for one huge operation.
constexpr uint64_t kLargestKept = 64 << 20;

uint64_t ClassOf(uint64_t bytes) {
  return std::bit_ceil(std::max(bytes, kSmallestClass));
}

}  // namespace

StagingPool& StagingPool::Get() {
  static StagingPool* const pool = new StagingPool();
  return *pool;
}

Result<std::byte*> StagingPool::Acquire(uint64_t bytes) {
  const uint64_t size = ClassOf(bytes);
  const std::lock_guard lock(mutex_);
  Class& own = classes_[size];
  if (own.free.empty()) {
    const uint64_t slab = std::max(size, std::clamp(own.bytes, kFirstSlabBytes, kLargestSlabBytes));
    HZ_ASSIGN_OR_RETURN(void* memory, RegionTable::Get().Allocate(slab));
    own.bytes += slab;
    auto* first = static_cast<std::byte*>(memory);
    for (uint64_t offset = 0; offset < slab; offset += size) own.free.push_back(first + offset);
  }
  std::byte* buffer = own.free.back();
  own.free.pop_back();
  return buffer;
}

void StagingPool::Release(std::byte* buffer, uint64_t bytes) {
  const uint64_t size = ClassOf(bytes);
  if (size > kLargestKept) {
    static_cast<void>(RegionTable::Get().Free(buffer));
    return;
  }
  const std::lock_guard lock(mutex_);
  classes_[size].free.push_back(buffer);
}

Result<StagingBuffer> AcquireFor(Session& session, uint64_t bytes) {
  while (true) {
    HZ_ASSIGN_OR_RETURN(std::byte * memory, StagingPool::Get().Acquire(bytes));
    const Result<BufferReference> found = RegionTable::Get().Locate(session, memory, bytes);
    if (found.ok() && found->region != kNoBuffer) return StagingBuffer{memory, *found};
    if (!found.ok()) {
      StagingPool::Get().Release(memory, bytes);
      return found.status();
    }
    // It is of an earlier session, or of the process that forked this one: it is of no more use.
  }
}

}  // namespace harmonaize

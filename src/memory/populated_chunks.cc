#include "src/memory/populated_chunks.h"

#include <algorithm>
#include <cerrno>

#include "src/memory/missing_pages.h"

namespace harmonaize {

Status PopulatedChunks::Populate(size_t offset, size_t bytes) {
  for (size_t chunk = offset / kChunkBytes; chunk * kChunkBytes < offset + bytes; ++chunk) {
    // Acquire, with the release of the thread that populated the chunk: its pages are there.
    if (chunks_[chunk].load(std::memory_order_acquire)) continue;
    const size_t first = chunk * kChunkBytes;
    const size_t chunk_bytes = std::min(kChunkBytes, bytes_ - first);
    if (!PopulatePages(mapping_ + first, chunk_bytes, use_)) {
      // Kernels before Linux 5.14 do not know the request. Pages that are only read come as they
      // are used.
      if (errno != EINVAL) {
        return ErrnoError(
            errno, fmt::format("no memory for {} bytes of a registered buffer", chunk_bytes));
      }
      if (use_ == PageUse::kWrite) TouchPages(mapping_ + first, chunk_bytes);
    }
    chunks_[chunk].store(true, std::memory_order_release);
  }
  return Status::Ok();
}

}  // namespace harmonaize

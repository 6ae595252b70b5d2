#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/status.h"
#include "src/memory/populate_pages.h"

namespace harmonaize {

/// Records which chunks of a mapping have all their pages in this process's page table, and so in
/// memory. Thread: any.
class PopulatedChunks {
 public:
  /// Bytes that are populated in one go: a system call for 512 pages, which delays a thread that
  /// wanted one of them by no more than a third of a millisecond.
  static constexpr size_t kChunkBytes = size_t{2} << 20;

  /// Serves a mapping that will be used for `use`, and of which nothing is known yet.
  PopulatedChunks(std::byte* mapping, size_t bytes, PageUse use)
      : mapping_(mapping),
        bytes_(bytes),
        use_(use),
        chunks_((bytes + kChunkBytes - 1) / kChunkBytes) {}

  /// Brings in the pages of all chunks that [offset, offset + bytes) of the mapping touches.
  /// Errors: kSystemError where the kernel has no memory for them.
  Status Populate(size_t offset, size_t bytes);

 private:
  std::byte* mapping_;
  size_t bytes_;
  PageUse use_;
  std::vector<std::atomic<bool>> chunks_;
};

}  // namespace harmonaize

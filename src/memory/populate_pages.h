#pragma once

#include <sys/mman.h>

#include <cstddef>

namespace harmonaize {

/// The use of populated pages. The values are madvise's, which has them since Linux 5.14; older
/// headers lack the names, and older kernels refuse.
enum class PageUse : int { kRead = 22, kWrite = 23 };

/// Brings whole pages into this process's page table at once; single faults would cost several
/// times as much. Returns false where an access would fail, or the kernel is too old.
inline bool PopulatePages(void* first, size_t bytes, PageUse use) {
  return madvise(first, bytes, static_cast<int>(use)) == 0;
}

}  // namespace harmonaize

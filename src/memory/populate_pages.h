#pragma once

#include <sys/mman.h>

#include <cstddef>

namespace harmonaize {

/// What the pages are wanted for. The values are madvise's, which has them since Linux 5.14; older
/// headers lack the names, and older kernels refuse.
enum class PageUse : int { kRead = 22, kWrite = 23 };

/// Brings whole pages into this process's page table, all at once, where one fault after the other
/// would cost several times as much. False where an access would fail, or the kernel is too old.
inline bool PopulatePages(void* first, size_t bytes, PageUse use) {
  return madvise(first, bytes, static_cast<int>(use)) == 0;
}

}  // namespace harmonaize

#include "daemon/runtime/free_memory.h"

#include <malloc.h>

#include <cstddef>
#include <cstdlib>

namespace harmonaize::daemon {
namespace {

/// Free memory, in bytes, that malloc may keep when a tenant has gone: the requests of other
/// tenants use up and free about that much all the time.
constexpr size_t kMostFreeBytes = size_t{4} << 20;

/// Size of a block, in bytes, on whose release malloc looks at the end of its arena. It is more
/// than FASTBIN_CONSOLIDATION_THRESHOLD of glibc (64 KiB), and less than the size that is mapped by
/// itself (128 KiB).
constexpr size_t kLargeBlockBytes = size_t{96} << 10;

}  // namespace

#if defined(__SANITIZE_ADDRESS__)
// AddressSanitizer has an allocator of its own, and libc's is not ready for questions.
void ReturnFreeMemory() {}
void ReturnEndOfOwnArena() {}
#else
void ReturnFreeMemory() {
  if (mallinfo2().fordblks > kMostFreeBytes) malloc_trim(kMostFreeBytes);
}

void ReturnEndOfOwnArena() {
  // Volatile, or the compiler would leave out both calls.
  void* volatile block = std::malloc(kLargeBlockBytes);
  std::free(block);
}
#endif

}  // namespace harmonaize::daemon

#include "daemon/runtime/free_memory.h"

#include <malloc.h>

#include <cstddef>
#include <cstdlib>

namespace harmonaize::daemon {
namespace {

/// How much free memory malloc may keep when a tenant has gone, in bytes: what other tenants'
/// requests use up and give back all the time.
constexpr size_t kMostFreeBytes = size_t{4} << 20;

/// A block after whose end malloc looks at the end of its arena, in bytes: more than
/// FASTBIN_CONSOLIDATION_THRESHOLD of glibc (64 KiB), less than what is mapped by itself (128 KiB).
constexpr size_t kLargeBlockBytes = size_t{96} << 10;

}  // namespace

#if defined(__SANITIZE_ADDRESS__)
// That sanitizer has an allocator of its own, and libc's is not ready for questions.
void ReturnFreeMemory() {}
void ReturnEndOfOwnArena() {}
#else
void ReturnFreeMemory() {
  if (mallinfo2().fordblks > kMostFreeBytes) malloc_trim(kMostFreeBytes);
}

void ReturnEndOfOwnArena() {
  // Volatile, or the compiler would leave both out.
  void* volatile block = std::malloc(kLargeBlockBytes);
  std::free(block);
}
#endif

}  // namespace harmonaize::daemon

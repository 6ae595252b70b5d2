#include "src/client/buffer_probe.h"

#include <unistd.h>

#include "src/memory/populate_pages.h"

namespace harmonaize {
namespace {

bool PopulatesPage(uintptr_t first, size_t page, PageUse use) {
  return PopulatePages(reinterpret_cast<void*>(first), page, use);
}

/// Whether this kernel answers such questions at all.
bool KernelKnows(size_t page) {
  static const bool kKnows = [page] {
    alignas(64) static char here = 0;
    const auto address = reinterpret_cast<uintptr_t>(&here) / page * page;
    return PopulatesPage(address, page, PageUse::kRead);
  }();
  return kKnows;
}

}  // namespace

bool BufferProbe::Look(const void* buffer, uint64_t bytes, bool write) {
  if (bytes == 0) return true;
  for (const Seen& seen : seen_) {
    if (seen.buffer == buffer && seen.bytes >= bytes && (seen.writable || !write)) return true;
  }
  static const size_t kPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  if (!KernelKnows(kPage)) return true;
  const auto start = reinterpret_cast<uintptr_t>(buffer);
  if (bytes - 1 > UINTPTR_MAX - start) return false;
  const uintptr_t first = start / kPage * kPage;
  const uintptr_t last = (start + bytes - 1) / kPage * kPage;
  const PageUse use = write ? PageUse::kWrite : PageUse::kRead;
  if (!PopulatesPage(first, kPage, use) || !PopulatesPage(last, kPage, use)) return false;
  seen_[next_++ % seen_.size()] = {buffer, bytes, write};
  return true;
}

}  // namespace harmonaize

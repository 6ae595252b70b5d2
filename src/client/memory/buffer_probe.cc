#include "src/client/memory/buffer_probe.h"

#include <unistd.h>

#include "src/memory/populate_pages.h"

namespace harmonaize {
namespace {

bool PopulatesPage(uintptr_t first, size_t page, PageUse use) {
  return PopulatePages(reinterpret_cast<void*>(first), page, use);
}

/// Returns whether this kernel can tell if a page exists.
bool KernelKnows(size_t page) {
  static const bool kKnows = [page] {
    alignas(64) static char here = 0;
    const auto address = reinterpret_cast<uintptr_t>(&here) / page * page;
    return PopulatesPage(address, page, PageUse::kRead);
  }();
  return kKnows;
}

}  // namespace

bool BufferProbe::Ask(const void* buffer, uint64_t bytes, bool write) {
  static const size_t kPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const auto start = reinterpret_cast<uintptr_t>(buffer);
  if (bytes - 1 > UINTPTR_MAX - start) return false;
  const uintptr_t end = start + bytes - 1;
  if (KernelKnows(kPage)) {
    const uintptr_t first = start / kPage * kPage;
    const uintptr_t last = end / kPage * kPage;
    const PageUse use = write ? PageUse::kWrite : PageUse::kRead;
    if (!PopulatesPage(first, kPage, use)) return false;
    if (last != first && !PopulatesPage(last, kPage, use)) return false;
  }
  for (const uintptr_t page : {start >> kPageShift, end >> kPageShift}) {
    (write ? writable_ : readable_)[PlaceOf(page)] = page;
  }
  return true;
}

}  // namespace harmonaize

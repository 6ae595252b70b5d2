#include "src/client/page_gatherer.h"

#include <sys/mman.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "src/client/region_pages.h"

namespace harmonaize {
namespace {

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

bool HostAllows() {
  std::string modes;
  std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"), modes);
  return !modes.empty() && modes.find("[never]") == std::string::npos;
}

}  // namespace

PageGatherer::PageGatherer() : allowed_(WantedHugePages() != HugePages::kOff && HostAllows()) {}

void PageGatherer::NoteUse(const void* address, uint64_t bytes) {
  if (bytes < kHugePageBytes || !allowed_) return;
  const auto begin = reinterpret_cast<uint64_t>(address);
  // Buffers lie pages apart, often at the same distance; the multiplier spreads them (Knuth's).
  const uint64_t place = (begin >> 12) * 0x9e3779b97f4a7c15 >> 57;
  Use& use = recent_[place % recent_.size()];
  if (use.address != begin || use.bytes != bytes) use = {.address = begin, .bytes = bytes};
  if (use.uses < kUsesBefore) {
    ++use.uses;
    return;
  }
  Gather(&use);
}

void PageGatherer::Gather(Use* use) {
  const uint64_t first = (use->address + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  const uint64_t end = (use->address + use->bytes) / kHugePageBytes * kHugePageBytes;
  const uint64_t begin = std::max(first, use->gathered_to);
  if (begin >= end) return;
  const uint64_t bytes = std::min(end - begin, kBytesAtOnce);
  // Where the kernel cannot, or knows no such thing, the pages stay as they are.
  static_cast<void>(madvise(reinterpret_cast<void*>(begin), bytes, MADV_COLLAPSE));
  use->gathered_to = begin + bytes;
  gathered_bytes_ += bytes;
}

}  // namespace harmonaize

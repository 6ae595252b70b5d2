#include "daemon/tenant/region.h"

#include <sys/mman.h>

#include <algorithm>

namespace harmonaize::daemon {
namespace {

/// Most bytes that are unmapped at once. Meanwhile no other thread of the process can map anything,
/// and giving this many pages back takes some milliseconds.
constexpr size_t kUnmapBytes = size_t{64} << 20;

}  // namespace

RegionMemory::~RegionMemory() {
  guard.Reset();
  // Unmaps from the end, so that the rest is always the beginning of the mapping.
  size_t left = mapping.size();
  while (left > kUnmapBytes) {
    const size_t first = (left - 1) / kUnmapBytes * kUnmapBytes;
    munmap(mapping.data() + first, left - first);
    left = first;
  }
  mapping.Shorten(left);
}

}  // namespace harmonaize::daemon

#include "daemon/tenant/region.h"

#include <sys/mman.h>

#include <algorithm>

namespace harmonaize::daemon {
namespace {

/// What is unmapped in one go, in bytes. While it lasts no other thread of the process can map
/// anything, and giving so many pages back takes some milliseconds.
constexpr size_t kUnmapBytes = size_t{64} << 20;

}  // namespace

RegionMemory::~RegionMemory() {
  guard.Reset();
  // From the end, so that what is left is a whole mapping's beginning.
  size_t left = mapping.size();
  while (left > kUnmapBytes) {
    const size_t first = (left - 1) / kUnmapBytes * kUnmapBytes;
    munmap(mapping.data() + first, left - first);
    left = first;
  }
  mapping.Shorten(left);
}

}  // namespace harmonaize::daemon

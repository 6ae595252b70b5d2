#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "src/base/collective.h"
#include "src/ipc/inline_wait.h"

namespace harmonaize {

/// Number of regions, of those that other ranks gave up last, that a slot names.
inline constexpr uint32_t kGoneRegions = 16;

/// Words by which the daemon and one rank communicate about the inline path; part of the rank's
/// MemberSlot. src/ipc/inline_segment.h has what the ranks share among themselves.
struct alignas(64) InlineSlot {
  // Written by the daemon.

  /// 0: no operation goes inline, not even one without data. The ranks agree on the path of each
  /// operation, so they may learn this one after the other.
  std::atomic<uint32_t> open;
  /// Number of regions that other ranks have given up since this rank attached. The last
  /// kGoneRegions of them are in `gone_regions`, each at its number modulo kGoneRegions.
  std::atomic<uint32_t> gone;
  /// Bytes of data beyond which an operation writes past the caches.
  uint64_t last_level_cache_bytes;
  /// Not 0: there are more ranks than processors, so a waiting rank should yield at once.
  uint32_t crowded;
  /// Largest operation that goes inline, in bytes of one block (count times the type's size), by
  /// collective. `registered` holds if every buffer of the rank is in registered memory, `heap`
  /// otherwise. They may change at any time, as `open` may.
  std::atomic<uint64_t> registered[kCollectiveCount];
  std::atomic<uint64_t> heap[kCollectiveCount];
  /// Largest operation on a host stream, whose caller expects not to wait, that goes inline.
  std::atomic<uint64_t> stream;
  /// Regions as GoneRegion encodes them.
  std::atomic<uint64_t> gone_regions[kGoneRegions];

  // Written by the rank.

  /// For the operator's statistics: its operations and bytes on the inline path.
  alignas(64) std::atomic<uint64_t> operations;
  std::atomic<uint64_t> bytes;
  /// For the diagnosis: an operation in which the rank has waited for long.
  InlineWaitSlot wait;
};

constexpr uint64_t GoneRegion(int rank, uint32_t region) {
  return uint64_t{static_cast<uint32_t>(rank)} << 32 | region;
}

}  // namespace harmonaize

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "src/base/collective.h"

namespace harmonaize {

/// How many of the regions that other ranks have given up last a slot names.
inline constexpr uint32_t kGoneRegions = 16;

/// What the daemon and one rank tell each other of the inline path; in the rank's MemberSlot. What
/// the ranks share among themselves is in src/ipc/inline_segment.h.
struct alignas(64) InlineSlot {
  // Written by the daemon.

  /// 0: nothing goes inline, not even an operation without data. What one operation does is agreed
  /// by its ranks, so they may learn this one after the other.
  std::atomic<uint32_t> open;
  /// How many regions other ranks have given up since this rank attached; the last kGoneRegions of
  /// them are in `gone_regions`, each at its number modulo kGoneRegions.
  std::atomic<uint32_t> gone;
  /// Operations whose data exceed it write past the caches.
  uint64_t last_level_cache_bytes;
  /// Not 0: more ranks than processors. A rank that waits had better give way at once.
  uint32_t crowded;
  /// Up to how many bytes (of one block: count times the type's size) an operation goes inline, by
  /// collective: with every buffer of the rank in registered memory, and otherwise.
  uint64_t registered[kCollectiveCount];
  uint64_t heap[kCollectiveCount];
  /// The most for an operation on a host stream, whose caller expects not to wait for the data.
  uint64_t stream;
  /// As GoneRegion makes them.
  std::atomic<uint64_t> gone_regions[kGoneRegions];

  // Written by the rank, for the operator's eyes: what it has done on the inline path.

  alignas(64) std::atomic<uint64_t> operations;
  std::atomic<uint64_t> bytes;
};

constexpr uint64_t GoneRegion(int rank, uint32_t region) {
  return uint64_t{static_cast<uint32_t>(rank)} << 32 | region;
}

}  // namespace harmonaize

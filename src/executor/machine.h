#pragma once

#include <cstddef>

namespace harmonaize {

/// Sets of workers are 64-bit masks. Far fewer saturate any memory we know.
inline constexpr int kMaxWorkers = 64;

/// What of the machine decides how work is cut.
struct Machine {
  /// Threads that execute, the owner not counted; 1 to kMaxWorkers.
  int workers = 1;
  /// The cache that one core has for itself: its second level.
  size_t cache_bytes = size_t{1} << 20;
  /// The cache that all cores share. An operation that touches as much writes past the caches.
  size_t last_level_bytes = size_t{32} << 20;
  /// That the threads may run on: work is shared among no more.
  int processors = kMaxWorkers;
};

}  // namespace harmonaize

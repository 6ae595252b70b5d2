#pragma once

#include <cstddef>
#include <vector>

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

/// Where a worker runs.
struct WorkerPlace {
  /// The processors that it may run on, by the kernel's numbers; empty: anywhere.
  std::vector<int> processors = {};
  /// The memory that is near to all of these, 0 to kMaxNodes - 1; -1: none in particular.
  int node = -1;
};

/// More nodes than that are served like memory that lies nowhere in particular.
inline constexpr int kMaxNodes = 16;

}  // namespace harmonaize

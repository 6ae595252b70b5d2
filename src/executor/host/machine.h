#pragma once

#include <cstddef>
#include <vector>

namespace harmonaize {

/// Most workers of an executor: sets of them are 64-bit masks. Far fewer saturate any memory we
/// know.
inline constexpr int kMaxWorkers = 64;

/// Properties of the machine that decide how work is cut.
struct Machine {
  /// Threads that execute, without the owner; 1 to kMaxWorkers.
  int workers = 1;
  /// Second-level cache: the one that a core has for itself.
  size_t cache_bytes = size_t{1} << 20;
  /// Cache that all cores share. An operation that touches as much writes past the caches.
  size_t last_level_bytes = size_t{32} << 20;
  /// Processors that the threads may run on; work is shared among no more.
  int processors = kMaxWorkers;
};

/// Processors and memory of a worker.
struct WorkerPlace {
  /// Processors that the worker may run on, by the kernel's numbers; empty: anywhere.
  std::vector<int> processors = {};
  /// Node of the memory near all of these, 0 to kMaxNodes - 1; -1: none in particular.
  int node = -1;
};

/// Memory nodes that are told apart; memory of further ones counts as near no worker.
inline constexpr int kMaxNodes = 16;

}  // namespace harmonaize

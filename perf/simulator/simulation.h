#pragma once

#include <cstdint>

#include "perf/simulator/step_table.h"
#include "src/planner/planner.h"

namespace harmonaize::simulator {

struct SimulationOptions {
  /// Seeds the hash by which routers choose ways where no explicit path is taken.
  uint64_t draw = 0;
  NetworkCosts costs = {};
};

struct Simulated {
  double seconds = 0;
  uint64_t messages = 0;
  uint64_t rate_changes = 0;  ///< Number of times that fair rates were recomputed.
};

/// Carries a plan out, flow by flow. Each lane between two hosts is a connection, which sends one
/// part of a message after the other; connections share links max-min fairly. A message starts when
/// its send and, unless it is short, its receive are ready, and is dealt out over its lanes by
/// their weights. It has arrived when all parts have, and the latency of a message has passed. A
/// host handles one message after the other, both those that it sends and those that arrive. Its
/// memory serves one step after the other, in the order in which they are ready.
///
/// Everything is simulated until the last step. Time and memory are linear in the steps, times the
/// connections that are active together.
Result<Simulated> Simulate(const FabricModel& model, const Candidate& candidate,
                           const Outline& outline, uint64_t bytes,
                           const SimulationOptions& options);

}  // namespace harmonaize::simulator

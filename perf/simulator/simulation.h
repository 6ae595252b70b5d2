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
  uint64_t rate_changes = 0;  ///< How often fair rates were worked out anew.
};

/// Carries a plan out, flow by flow. Each lane between two hosts is a connection, which sends one
/// part of a message after the other; connections share links max-min fairly. A message starts when
/// its send and, unless it is short, its receive are ready, is dealt out over its lanes by their
/// weights, and has come when all parts have, and the latency of a message has passed. A host
/// handles one message after the other, those that it sends and those that come, and its memory
/// serves one step after the other, in the order in which they are ready.
///
/// Everything is simulated until the last step; time and memory are linear in the steps, times the
/// connections that are active together.
Result<Simulated> Simulate(const FabricModel& model, const Candidate& candidate,
                           const Outline& outline, uint64_t bytes,
                           const SimulationOptions& options);

}  // namespace harmonaize::simulator

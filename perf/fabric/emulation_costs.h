#pragma once

#include "perf/fabric/network_plan.h"
#include "src/base/processors.h"
#include "src/planner/stated_costs.h"

namespace harmonaize::fabric {

/// What messages cost between hosts that are namespaces of one machine, for predictions: all of
/// them share its processors, of which a message takes most of its time. Fitted to all-reduces of
/// 1 KiB by six algorithms, and to those of 64 MiB between two hosts without a limit between them
/// (docs/laboratory.md).
inline StatedCosts EmulationCosts() {
  StatedCosts costs;
  costs.message_us = 5;
  costs.handling_us = 8;
  costs.shared_processors = static_cast<int64_t>(UsableProcessors().size());
  costs.wire_gbps = 3;
  costs.bucket_ms = kBucketSeconds * 1e3;
  return costs;
}

}  // namespace harmonaize::fabric

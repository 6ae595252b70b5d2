#pragma once

#include <cstddef>

#include "src/base/status.h"
#include "src/planner/host_costs.h"

namespace harmonaize {

// What it costs to move data. All of it throws std::system_error when a thread cannot be started,
// and gives kSystemError when there is no memory to be had.

/// The rates of what fits the caches and moves between two processors: copy_bytes_per_second,
/// fetch_bytes_per_second and reduce_bytes_per_second.
Status MeasureSlots(HostCosts* costs);

/// What is beyond the last-level cache: stream_bytes_per_second.
Status MeasureLargeBuffers(size_t last_level_bytes, HostCosts* costs);

}  // namespace harmonaize

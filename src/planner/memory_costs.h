#pragma once

#include <cstddef>

#include "src/base/status.h"
#include "src/planner/host_costs.h"

namespace harmonaize {

// Measurements of the costs of moving data. All throw std::system_error when a thread cannot be
// started, and return kSystemError when there is no memory to be had.

/// Measures the rates of data that fits the caches and moves between two processors:
/// copy_bytes_per_second, fetch_bytes_per_second and reduce_bytes_per_second.
Status MeasureSlots(HostCosts* costs);

/// Measures the rate beyond the last-level cache: stream_bytes_per_second.
Status MeasureLargeBuffers(size_t last_level_bytes, HostCosts* costs);

}  // namespace harmonaize

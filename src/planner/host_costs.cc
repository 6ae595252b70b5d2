#include "src/planner/host_costs.h"

#include <algorithm>
#include <cmath>
#include <system_error>

#include "src/planner/memory_costs.h"
#include "src/planner/thread_costs.h"

namespace harmonaize {

bool Plausible(const HostCosts& costs) {
  return std::all_of(kHostCostFields.begin(), kHostCostFields.end(), [&](const auto& field) {
    const double value = costs.*field.value;
    return std::isfinite(value) && value > 0;
  });
}

Result<HostCosts> MeasureHostCosts(size_t last_level_bytes) {
  HostCosts costs;
  try {
    MeasureTurns(&costs);
    MeasureWakeUp(&costs);
    HZ_RETURN_IF_ERROR(MeasureRoundTrip(&costs));
    HZ_RETURN_IF_ERROR(MeasureSlots(&costs));
    HZ_RETURN_IF_ERROR(MeasureLargeBuffers(last_level_bytes, &costs));
  } catch (const std::system_error& error) {
    return ErrnoError(error.code().value(), "cannot start a thread to measure this host with");
  }
  if (!Plausible(costs)) return InternalError("measuring this host gave numbers that cannot be");
  return costs;
}

}  // namespace harmonaize

#include "src/planner/host_costs.h"

#include <algorithm>
#include <system_error>

#include "src/planner/memory_costs.h"
#include "src/planner/thread_costs.h"

namespace harmonaize {

bool Plausible(const HostCostField& field, double value) {
  // Not a number is not within the bounds either.
  return value >= field.least && value <= field.most;
}

bool Plausible(const HostCosts& costs) {
  return std::all_of(kHostCostFields.begin(), kHostCostFields.end(),
                     [&](const auto& field) { return Plausible(field, costs.*field.value); });
}

HostCosts TypicalCosts() {
  HostCosts costs;
  for (const HostCostField& field : kHostCostFields) costs.*field.value = field.typical;
  return costs;
}

Result<HostCosts> MeasureHostCosts(size_t last_level_bytes, const std::function<bool()>& go_on) {
  const std::array<std::function<Status(HostCosts*)>, 5> primitives = {
      MeasureTurns, MeasureWakeUp, MeasureRoundTrip, MeasureSlots,
      [&](HostCosts* costs) { return MeasureLargeBuffers(last_level_bytes, costs); }};
  HostCosts costs;
  try {
    for (const auto& measure : primitives) {
      if (!go_on()) return Status(Code::kInProgress, "the measurement of this host was given up");
      HZ_RETURN_IF_ERROR(measure(&costs));
    }
  } catch (const std::system_error& error) {
    return ErrnoError(error.code().value(), "cannot start a thread to measure this host with");
  }
  return costs;
}

}  // namespace harmonaize

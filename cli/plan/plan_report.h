#pragma once

#include <string>
#include <vector>

#include "src/planner/planner.h"

namespace harmonaize {

/// What `harmonaize plan` shows of a planner's answers.
struct PlanReport {
  const FabricModel* model = nullptr;
  const Planner* planner = nullptr;
  PlannerOptions options = {};
  std::vector<PlannedSize> sizes = {};
  size_t most_plans = 5;  ///< Of each size, in the table.
};

/// For people: one table for the choices, one for each size's best candidates.
std::string PlanTable(const PlanReport& report);

/// {"fabric", "collective", "ranks", "hosts", "policy", "bound_seconds_per_byte",
///  "sizes": [{"bytes", "bound_seconds", "plans": [{"algorithm", "order", "hosts", "groups",
///             "pieces", "paths", "seconds", "latency_seconds", "network_seconds",
///             "fill_seconds", "memory_seconds", "handling_seconds", "busiest_link"}]}],
///  "not_considered": [{"what", "why"}]}
/// The first plan of a size is the choice.
std::string PlanJson(const PlanReport& report);

/// "ring, by rack, 4 pieces, weighted".
std::string DescribePlan(const Planner& planner, const RankedPlan& plan);

}  // namespace harmonaize

#pragma once

#include <string>
#include <vector>

#include "src/planner/planner.h"

namespace harmonaize {

/// A planner's answers, as `harmonaize plan` shows them.
struct PlanReport {
  const FabricModel* model = nullptr;
  const Planner* planner = nullptr;
  PlannerOptions options = {};
  std::vector<PlannedSize> sizes = {};
  size_t most_plans = 5;  ///< Plans of each size in the table.
};

/// Returns tables for people: one for the choices, and one for each size's best candidates.
std::string PlanTable(const PlanReport& report);

/// Returns JSON, in which the first plan of a size is the choice:
///     {"fabric", "collective", "ranks", "hosts", "policy", "bound_seconds_per_byte",
///      "sizes": [{"bytes", "bound_seconds", "plans": [{"algorithm", "order", "hosts", "groups",
///                 "pieces", "paths", "seconds", "latency_seconds", "network_seconds",
///                 "fill_seconds", "memory_seconds", "handling_seconds", "busiest_link"}]}],
///      "not_considered": [{"what", "why"}]}
std::string PlanJson(const PlanReport& report);

/// Returns "ring, by rack, 4 pieces, weighted".
std::string DescribePlan(const Planner& planner, const RankedPlan& plan);

}  // namespace harmonaize

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/planner/wire_terms.h"

namespace harmonaize {

/// What the plan of an operation is chosen for, of those that do not take much longer than the
/// fastest one.
enum class PlanObjective : uint8_t {
  kFastest = 0,
  kFewestMessages,  ///< The fewest messages that wait for each other: each may be late.
  kLeastTraffic,    ///< The least time of the busiest link: other operations want it, too.
  kLeastWork,       ///< The least work of processors.
};

/// What a job says of how its collectives are planned. The defaults say nothing.
struct PlanTerms {
  PlanObjective objective = PlanObjective::kFastest;
  /// Seconds that an operation may take. Sums have the least lossy format on the wire with which
  /// the best plan is predicted to take no longer; of the plans that take no longer, the one of
  /// kLeastTraffic is chosen, whatever the objective. 0: there is no limit, and the fastest format
  /// is used.
  double deadline_seconds = 0;
  std::vector<std::string> allowed_algorithms = {};  ///< Empty: all.
  std::vector<std::string> forbidden_algorithms = {};
  bool reproducible = false;  ///< As PlannerOptions::reproducible.
  WireTerms wire = {};

  /// Returns whether plans may use the algorithm of this name.
  bool Allow(std::string_view algorithm) const;

  bool operator==(const PlanTerms&) const = default;
};

}  // namespace harmonaize

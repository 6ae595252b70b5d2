#include "daemon/plans/job_plan_terms.h"

namespace harmonaize::daemon {
namespace {

PlanObjective PlanObjectiveOf(Objective objective) {
  switch (objective) {
    case Objective::kBalanced: return PlanObjective::kFastest;
    case Objective::kLatency: return PlanObjective::kFewestMessages;
    case Objective::kThroughput: return PlanObjective::kLeastTraffic;
    case Objective::kEnergy: return PlanObjective::kLeastWork;
  }
  return PlanObjective::kFastest;
}

}  // namespace

PlanTerms PlanTermsOf(const CollectiveTerms& granted) {
  return {.objective = PlanObjectiveOf(granted.objective),
          .deadline_seconds = granted.deadline_seconds,
          .allowed_algorithms = granted.allowed_algorithms,
          .forbidden_algorithms = granted.forbidden_algorithms,
          .reproducible = granted.reproducible,
          .wire = {.bf16 = granted.compression.bf16,
                   .fp8 = granted.compression.fp8,
                   .error_bound = granted.compression.error_bound}};
}

}  // namespace harmonaize::daemon

#include "daemon/plans/job_plan_terms.h"

#include <string>
#include <vector>

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

std::vector<std::string> ListOf(const std::vector<std::string>* names) {
  return names == nullptr ? std::vector<std::string>() : *names;
}

}  // namespace

PlanTerms PlanTermsOf(const CollectiveTerms& granted) {
  return {.objective = PlanObjectiveOf(granted.objective),
          .deadline_seconds = granted.deadline_seconds,
          .allowed_algorithms = ListOf(granted.allowed_algorithms),
          .forbidden_algorithms = ListOf(granted.forbidden_algorithms),
          .reproducible = granted.reproducible,
          .wire = {.bf16 = granted.compression.bf16,
                   .fp8 = granted.compression.fp8,
                   .error_bound = granted.compression.error_bound}};
}

}  // namespace harmonaize::daemon

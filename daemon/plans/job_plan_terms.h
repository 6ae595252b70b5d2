#pragma once

#include "src/planner/plan_terms.h"
#include "src/requirements/terms.h"

namespace harmonaize::daemon {

/// Returns what granted terms mean for the plan of an operation.
PlanTerms PlanTermsOf(const CollectiveTerms& granted);

}  // namespace harmonaize::daemon

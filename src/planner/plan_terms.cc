#include "src/planner/plan_terms.h"

#include <algorithm>

namespace harmonaize {

bool PlanTerms::Allow(std::string_view algorithm) const {
  const auto names = [algorithm](const std::vector<std::string>& list) {
    return std::find(list.begin(), list.end(), algorithm) != list.end();
  };
  return (allowed_algorithms.empty() || names(allowed_algorithms)) && !names(forbidden_algorithms);
}

}  // namespace harmonaize

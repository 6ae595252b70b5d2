#pragma once

#include <string>
#include <string_view>

#include "src/planner/planner.h"

namespace harmonaize {

/// Reads an operator's plan for PlanPolicy::kFixed:
///
///     [plan]
///     algorithm = "hierarchical"        # needed; a name of Algorithms()
///     order = ["host0", "host1"]        # for algorithms that go along the hosts
///     pieces = 4                        # 1 to 4096; 1 if left out
///     paths = "weighted"                # "ecmp", "even"
///
///     [[group]]                         # for algorithms of several levels
///     hosts = ["host0", "host1"]
///
/// `name` stands for the file in errors, which tell the line and column, the mistake, and the
/// nearest valid name. Planner::Make checks whether order and groups name every host of a
/// communicator.
Result<PlanSpec> ParsePlanFile(std::string_view text, const std::string& name,
                               const FabricModel& model);
/// Reads the plan from a file. Errors: also kSystemError when it cannot be read.
Result<PlanSpec> LoadPlanFile(const std::string& path, const FabricModel& model);

}  // namespace harmonaize

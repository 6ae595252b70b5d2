#pragma once

#include "src/base/status.h"
#include "src/schedule/ir/schedule.h"

namespace harmonaize {

/// Returns a step's name for errors: "host 0 step 3 (reduce)". Requires: both indices are in range.
std::string StepName(const HostProgram& program, int step);

/// Checks every index, host and shape, as the first pass of Check, so that the later passes need
/// not.
Status Validate(const Schedule& schedule);

}  // namespace harmonaize

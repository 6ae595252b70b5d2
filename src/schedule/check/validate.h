#pragma once

#include "src/base/status.h"
#include "src/schedule/ir/schedule.h"

namespace harmonaize {

/// "host 0 step 3 (reduce)": how errors name a step. Both indices must be in range.
std::string StepName(const HostProgram& program, int step);

/// The first pass of Check: every index, host and shape is such that the later passes need not
/// look.
Status Validate(const Schedule& schedule);

}  // namespace harmonaize

#pragma once

#include "src/base/status.h"
#include "src/planner/stated_costs.h"

namespace harmonaize::fabric {

/// How long this machine's kernel takes for a small message over TCP from one end to the other, in
/// seconds: the median of some milliseconds of them, over loopback and without another thread.
Result<double> MeasureMessage();

/// What messages cost between hosts that are namespaces of one machine, for predictions: all of
/// them share its processors, of which a message takes most of its time. `message_seconds` is what
/// MeasureMessage gave, and their times are multiples of it; docs/laboratory.md has the
/// measurements that they were fitted to.
StatedCosts EmulationCosts(double message_seconds);

}  // namespace harmonaize::fabric

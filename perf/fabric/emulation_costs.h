#pragma once

#include "src/base/status.h"
#include "src/planner/stated_costs.h"

namespace harmonaize::fabric {

/// Measures how long this machine's kernel takes for a small message over TCP from one end to the
/// other, in seconds: the median over some milliseconds, over loopback and without another thread.
Result<double> MeasureMessage();

/// Returns the costs of messages between hosts that are namespaces of one machine, for predictions.
/// All hosts share its processors, which take most of a message's time. `message_seconds` is the
/// result of MeasureMessage, and the costs are multiples of it; docs/laboratory.md has the
/// measurements that they were fitted to.
StatedCosts EmulationCosts(double message_seconds);

}  // namespace harmonaize::fabric

#pragma once

#include "src/planner/fabric_model.h"
#include "src/schedule/bounds/cut_bound.h"
#include "src/schedule/ir/outline.h"

namespace harmonaize {

/// BoundOf for fabrics of any size, in seconds for a byte a unit: the most, over all cuts, of what
/// has to cross by what can. For an all-reduce, of its two phases together; half of it is what no
/// algorithm whatever can beat (cut_bound.h tells more).
///
/// Up to `most_exact` hosts with ranks it is BoundOf. Beyond that, nodes that are alike are merged:
/// the classes are those of colour refinement with one receiver set apart, and a flow through the
/// whole fabric is a flow through the classes and back (shared out evenly over the members), so
/// that each maximum flow, and with it each bound, is the same. One receiver of each class is
/// looked at; that is all of them wherever hosts that cannot be told apart this way can be
/// exchanged, as in trees and fat trees. All-to-all, gather and scatter look at the cuts around a
/// host, a switch's hosts and a rack.
Result<double> BoundSecondsPerByte(const FabricModel& model, const Problem& problem,
                                   int most_exact = 24);

}  // namespace harmonaize

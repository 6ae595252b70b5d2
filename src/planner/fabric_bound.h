#pragma once

#include "src/planner/fabric_model.h"
#include "src/schedule/bounds/cut_bound.h"
#include "src/schedule/ir/outline.h"

namespace harmonaize {

/// Returns the bound of BoundOf for fabrics of any size, in seconds for a byte a unit: the maximum,
/// over all cuts, of the bytes that have to cross divided by the rate of the links that cross. For
/// an all-reduce it is the bound of both phases together; no algorithm whatever can beat half of it
/// (see cut_bound.h).
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

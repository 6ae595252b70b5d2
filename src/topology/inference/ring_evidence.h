#pragma once

#include <vector>

#include "src/topology/inference/probe_sets.h"

namespace harmonaize {

/// Whether hosts with two NICs each stand in a ring and forward for each other.
///
/// What gives a ring away: two neighbours have one link between them, so that both NICs of the one
/// send to the other no more than a single NIC does, though either host sends by two links to
/// others. Behind switches both NICs would count.
struct RingEvidence {
  /// What is still to be measured to tell; empty: all is known.
  TransferSet missing;
  /// The hosts around the ring; empty: it is none.
  std::vector<int> order;
  /// What each of `order` sends to the next one, and to the one before.
  std::vector<double> forth;
  std::vector<double> back;
};

RingEvidence LookForRing(const Measurements& measurements, const ProbeSets& sets,
                         const MeasuredSets& measured);

}  // namespace harmonaize

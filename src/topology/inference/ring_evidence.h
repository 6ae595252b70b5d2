#pragma once

#include <vector>

#include "src/topology/inference/probe_sets.h"

namespace harmonaize {

/// Tells whether hosts with two NICs each form a ring and forward for each other.
///
/// A ring shows because two neighbours have one link between them: both NICs of the one send to the
/// other no more than a single NIC does, although either host sends by two links to others. Behind
/// switches both NICs would count.
struct RingEvidence {
  /// Transfers still to be measured to decide; empty: all is known.
  TransferSet missing;
  /// Hosts around the ring; empty: there is none.
  std::vector<int> order;
  /// Rates that each of `order` sends to the next one, and to the one before.
  std::vector<double> forth;
  std::vector<double> back;
};

RingEvidence LookForRing(const Measurements& measurements, const ProbeSets& sets,
                         const MeasuredSets& measured);

}  // namespace harmonaize

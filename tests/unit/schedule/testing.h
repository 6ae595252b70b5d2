#pragma once

#include <vector>

#include "src/schedule/ir/outline.h"

namespace harmonaize {

// What the tests of algorithms for several hosts share.

/// Ranks dealt over `hosts` hosts in ways that algorithms may stumble over: host by host, one each,
/// unequal, in any order, with host numbers that are not dense. The first uses are the plainest.
std::vector<std::vector<int>> Placements(int hosts);

/// A problem for each root worth trying (all of few ranks, otherwise the first, the last and some
/// between) and each place that is allowed.
std::vector<Problem> Problems(Collective collective, const std::vector<int>& host_of_rank,
                              bool in_place_too = true);

/// The hosts of a placement in groups of unequal sizes, in a shuffled order.
std::vector<std::vector<int>> SomeGroups(const std::vector<int>& host_of_rank, int seed);

/// The hosts of a placement in a shuffled order.
std::vector<int> SomeOrder(const std::vector<int>& host_of_rank, int seed);

/// Expects of an outline that the checker proves its schedule, that the interpreter runs it right
/// in `runs` random orders, that its summary is what is counted from the schedule, and that the
/// program of each host by itself is that of the schedule.
void ExpectSound(const Outline& outline, int runs);

}  // namespace harmonaize

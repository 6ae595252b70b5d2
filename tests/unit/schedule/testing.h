#pragma once

#include <vector>

#include "src/schedule/ir/outline.h"

namespace harmonaize {

// Common parts of the tests of algorithms for several hosts.

/// Returns ranks dealt over `hosts` hosts in ways that may be difficult for algorithms: host by
/// host, one each, unequal, in any order, with host numbers that are not dense. The first ones are
/// the plainest.
std::vector<std::vector<int>> Placements(int hosts);

/// Returns a problem for each root worth trying (all if there are few ranks, otherwise the first,
/// the last and some between) and each allowed place.
std::vector<Problem> Problems(Collective collective, const std::vector<int>& host_of_rank,
                              bool in_place_too = true);

/// Returns the hosts of a placement in groups of unequal sizes, in a shuffled order.
std::vector<std::vector<int>> SomeGroups(const std::vector<int>& host_of_rank, int seed);

/// Returns the hosts of a placement in a shuffled order.
std::vector<int> SomeOrder(const std::vector<int>& host_of_rank, int seed);

/// Expects that the checker proves an outline's schedule, that the interpreter runs it correctly in
/// `runs` random orders, that its summary equals the one counted from the schedule, and that each
/// host's own program is that of the schedule.
void ExpectSound(const Outline& outline, int runs);

}  // namespace harmonaize

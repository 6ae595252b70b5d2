#pragma once

#include <vector>

#include "src/schedule/ir/schedule.h"

namespace harmonaize {

// Schedules over several hosts, written by hand for the tests. Host h has ranks_per_host[h] ranks,
// numbered on from those of host h - 1. Two hosts or more.

/// A ring over the hosts with one piece per host: reduce-scatter, then all-gather (Patarasuk and
/// Yuan, 2009), the ranks of a host taking part as one.
Schedule RingAllReduce(const std::vector<int>& ranks_per_host, bool in_place);

/// A ring over the hosts; a host passes on the blocks of all its ranks.
Schedule RingAllGather(const std::vector<int>& ranks_per_host, bool in_place);

/// A ring over the hosts that keeps data in transit in `slots` alternating sets of scratch blocks.
/// Two are right; with one, every host waits to send before it receives, which is a deadlock.
Schedule RingReduceScatter(const std::vector<int>& ranks_per_host, bool in_place, int slots = 2);

/// Up the hosts with partial results, down again with the result: slow, and in rank order.
Schedule ChainAllReduce(const std::vector<int>& ranks_per_host, bool in_place);

}  // namespace harmonaize

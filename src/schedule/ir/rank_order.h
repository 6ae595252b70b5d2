#pragma once

#include "src/schedule/ir/outline.h"

namespace harmonaize {

// Reductions that are left folds in rank order, ((r0 + r1) + r2) + ..., whatever the hosts: results
// are bit-identical to those of one host (see ReducesInRankOrder). All-reduce, reduce and
// reduce-scatter.

/// A chain along the ranks: each run of consecutive ranks on one host is reduced onto what comes
/// from the run before, and an all-reduce goes back along a chain of the hosts. For large messages,
/// best where ranks are numbered host by host: then h hosts have h runs, every link carries the
/// data once in each direction, and with the pieces following each other that takes about the time
/// of sending the data once (a ring needs twice that on links as fast in both directions at once),
/// plus h - 1 pieces in each phase. With r runs a host sends the data as often as it has runs:
/// dealt round robin over the hosts, that is as many times as it has ranks.
///
/// A reduce and a reduce-scatter bring each result from the last run's host to its owner. `pieces`
/// a unit.
OutlineResult MakeRankOrderChain(const Problem& problem, int pieces);

/// Every piece has a home, to which each host sends the contributions of its ranks one by one; the
/// home reduces them in one pass and, in an all-reduce or a reduce, passes the result on. Two
/// messages of latency at most, any numbering of ranks, but a host with n ranks sends n times
/// (h-1)/h of the data: for small messages, and for one rank a host, where it is what a direct
/// reduce-scatter and all-gather send. The home keeps all contributions of its pieces in scratch
/// memory; numbered by pieces as scratch blocks are, that is room for `count` elements of each
/// rank.
///
/// All-reduce and reduce have `pieces` pieces for each host; a reduce-scatter `pieces` a unit, at
/// home where its owner is.
OutlineResult MakeRankOrderExchange(const Problem& problem, int pieces);

}  // namespace harmonaize

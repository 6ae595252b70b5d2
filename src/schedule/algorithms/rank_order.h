#pragma once

#include "src/schedule/ir/outline.h"

namespace harmonaize {

// Algorithms whose reductions are left folds in rank order, ((r0 + r1) + r2) + ..., on any hosts,
// so that results are bit-identical to those of one host (see ReducesInRankOrder). They carry out
// all-reduce, reduce and reduce-scatter.

/// A chain along the ranks: each run of consecutive ranks on one host is reduced onto the data from
/// the run before, and an all-reduce goes back along a chain of the hosts. It suits large messages
/// and ranks that are numbered host by host. Then h hosts have h runs, and every link carries the
/// data once in each direction. With the pieces following each other that takes about the time of
/// sending the data once, plus h - 1 pieces in each phase; a ring needs twice that on links that
/// are as fast in both directions at once. With r runs a host sends the data as often as it has
/// runs: with ranks dealt round robin over the hosts, as many times as it has ranks.
///
/// A reduce and a reduce-scatter bring each result from the last run's host to its owner. A unit
/// has `pieces` pieces.
OutlineResult MakeRankOrderChain(const Problem& problem, int pieces);

/// Every piece has a home, to which each host sends the contributions of its ranks one by one. The
/// home reduces them in one pass and, in an all-reduce or a reduce, passes the result on. It has at
/// most two messages of latency, for any numbering of ranks, but a host with n ranks sends n times
/// (h-1)/h of the data. So it suits small messages, and one rank a host, where it sends what a
/// direct reduce-scatter and all-gather send. The home keeps all contributions of its pieces in
/// scratch memory. Scratch blocks are numbered by pieces, so that is room for `count` elements of
/// each rank.
///
/// All-reduce and reduce have `pieces` pieces for each host; a reduce-scatter has `pieces` a unit,
/// whose home is its owner's host.
OutlineResult MakeRankOrderExchange(const Problem& problem, int pieces);

}  // namespace harmonaize

#pragma once

#include <cstdint>
#include <vector>

#include "src/schedule/bounds/capacity_graph.h"
#include "src/schedule/ir/outline.h"

namespace harmonaize {

/// What no algorithm can beat, because it has to cross a cut of the fabric: `demand` units of
/// `count` elements over edges of the capacity `capacity`. In lowest terms.
struct CutBound {
  int64_t demand = 0;
  int64_t capacity = 1;
  /// By node: the side of the cut that sends. Empty where nothing has to cross.
  std::vector<bool> from_side = {};

  /// In units of `count` elements by the graph's unit of capacity, as BusiestEdgeTime.
  double time() const { return static_cast<double>(demand) / static_cast<double>(capacity); }
};

/// Where nodes have shares of data that every receiver has to get, over all cuts that part some
/// share from some receiver the most that has to cross by what can: for each receiver, the shares
/// on the other side. Exact: a cut that is worse than the last one is looked for by maximum flows
/// until there is none (Dinkelbach's method, 1967; Zhao et al., "ForestColl", 2024, search for the
/// same number by bisection).
///
/// `shares` is by node, >= 0, and not all 0. An error if some receiver cannot be reached.
Result<CutBound> SpanningBound(const CapacityGraph& graph, const std::vector<int64_t>& shares,
                               const std::vector<int>& receivers);

/// The hosts that share the pieces of an all-reduce by trees, as their roots: all; or those alone
/// that have no more capacity than some other (a slow host need not be sent what it is the root
/// of), or no less, if the bounds of both phases are lower then. By position, at least one. The
/// graph is of WithoutOtherHosts.
Result<std::vector<bool>> AllReduceRoots(const CapacityGraph& graph,
                                         const HostPlacement& placement);

/// The bound of a collective. Hosts of the graph without ranks pass nothing on.
///
/// - all-gather: each host's share is what its ranks have; reduce-scatter: the same on the reversed
///   graph. With unequal ranks, unequal shares.
/// - broadcast: the root has all; reduce: the reverse.
/// - all-reduce: of those that are a reduce-scatter followed by an all-gather, with equal shares
/// for
///   AllReduceRoots: the sum of both bounds; the cut is that of the all-gather. Other shares may do
///   a little better, but no algorithm whatever can beat half of it where all hosts are roots, as
///   all data have to cross each cut in both directions.
/// - all-to-all: the worst of those cuts that part a single host, the hosts of a switch, or the
///   sides of the all-gather's or reduce-scatter's bound. Exact on a tree of two levels; in general
///   a worse cut may exist (to find it is NP-hard). Gather and scatter: the same, for the root's
///   traffic.
///
/// 0 where there is one host.
Result<CutBound> BoundOf(const CapacityGraph& fabric, const Problem& problem);

}  // namespace harmonaize

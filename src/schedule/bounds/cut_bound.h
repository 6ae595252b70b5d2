#pragma once

#include <cstdint>
#include <vector>

#include "src/schedule/bounds/capacity_graph.h"
#include "src/schedule/ir/outline.h"

namespace harmonaize {

/// A bound that no algorithm can beat, because data has to cross a cut of the fabric: `demand`
/// units of `count` elements over edges of the capacity `capacity`. In lowest terms.
struct CutBound {
  int64_t demand = 0;
  int64_t capacity = 1;
  /// By node: whether it is on the sending side of the cut. Empty if nothing has to cross.
  std::vector<bool> from_side = {};

  /// Returns the time in units of `count` elements by the graph's unit of capacity, as
  /// BusiestEdgeTime.
  double time() const { return static_cast<double>(demand) / static_cast<double>(capacity); }
};

/// Returns the bound for data of which nodes have shares and every receiver has to get all. It is
/// the maximum, over the cuts that separate some share from some receiver, of the shares that have
/// to cross by the capacity that can. Exact: maximum flows search for a cut that is worse than the
/// last one until there is none (Dinkelbach's method, 1967; Zhao et al., "ForestColl", 2024, search
/// for the same number by bisection).
///
/// `shares` is by node, >= 0, and not all 0. Errors: some receiver cannot be reached.
Result<CutBound> SpanningBound(const CapacityGraph& graph, const std::vector<int64_t>& shares,
                               const std::vector<int>& receivers);

/// Returns the hosts that share the pieces of an all-reduce by trees, as their roots. These are all
/// hosts, unless the bounds of both phases are lower with only those that have no more capacity
/// than some limit, or no less. (A slow host need not be sent the pieces that it is the root of.)
/// By position, at least one. Requires: the graph is of WithoutOtherHosts.
Result<std::vector<bool>> AllReduceRoots(const CapacityGraph& graph,
                                         const HostPlacement& placement);

/// Returns the bound of a collective. Hosts of the graph without ranks forward nothing.
///
/// - all-gather: each host's share is what its ranks have; reduce-scatter: the same on the reversed
///   graph. With unequal ranks, unequal shares.
/// - broadcast: the root has all; reduce: the reverse.
/// - all-reduce: the sum of both bounds, of algorithms that are a reduce-scatter followed by an
///   all-gather, with equal shares for AllReduceRoots. The cut is that of the all-gather. Other
///   shares may do a little better, but no algorithm whatever can beat half of the bound where all
///   hosts are roots, because all data has to cross each cut in both directions.
/// - all-to-all: the worst of those cuts that part a single host, the hosts of a switch, or the
///   sides of the all-gather's or reduce-scatter's bound. Exact on a tree of two levels; in general
///   a worse cut may exist (to find it is NP-hard). Gather and scatter: the same, for the root's
///   traffic.
///
/// 0 where there is one host.
Result<CutBound> BoundOf(const CapacityGraph& fabric, const Problem& problem);

}  // namespace harmonaize

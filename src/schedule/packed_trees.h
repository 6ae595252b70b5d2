#pragma once

#include "src/schedule/capacity_graph.h"
#include "src/schedule/outline.h"

namespace harmonaize {

/// Spanning trees packed into a fabric of any shape, such that the cut that bounds the collective
/// (BoundOf) is full all the time (Zhao et al., "ForestColl: Throughput-Optimal Collective
/// Communications on Heterogeneous Network Fabrics", 2024). All-gather and broadcast go down
/// out-trees, reduce-scatter and reduce up in-trees, an all-reduce up one and down one. Every
/// message names the path that it takes: routes().
///
/// A unit is divided over k equal trees. k is the least that loads every edge exactly as the bound
/// says; where that is more than `most_trees` (at least 1; in an all-reduce: trees of all hosts
/// together), as many are taken as are allowed, and the time is longer than the bound's. How much
/// is BusiestEdgeTime by BoundOf(...).time(); with k trees it is less than (1 + E/k), E being the
/// number of edges over the worst cut, and mostly much less. An all-reduce over more hosts than
/// `most_trees` has its roots on some of them. Each tree carries `pieces` pieces behind each other:
/// k * pieces pieces in all, but k * pieces * hosts in an all-reduce.
///
/// The bound is reached where at every switch as much capacity comes in as goes out (links that are
/// as fast in both directions). An all-reduce reaches the bound of its two phases one after the
/// other.
///
/// Time: polynomial, but of a high degree. On one core some milliseconds for 8 hosts, seconds for
/// 64. For more, pack trees over groups, or take the hierarchical algorithm.
OutlineResult MakePackedTrees(const Problem& problem, const CapacityGraph& fabric, int most_trees,
                              int pieces);

}  // namespace harmonaize

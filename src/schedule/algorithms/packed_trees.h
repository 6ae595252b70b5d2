#pragma once

#include "src/schedule/bounds/capacity_graph.h"
#include "src/schedule/ir/outline.h"

namespace harmonaize {

/// Packs spanning trees into a fabric of any shape so that the cut that bounds the collective
/// (BoundOf) is full all the time (Zhao et al., "ForestColl: Throughput-Optimal Collective
/// Communications on Heterogeneous Network Fabrics", 2024). All-gather and broadcast go down
/// out-trees, reduce-scatter and reduce up in-trees, an all-reduce up one and down one. Every
/// message names the path that it takes: routes().
///
/// A unit is divided over k equal trees. k is the least number that loads every edge exactly as the
/// bound says. If that is more than `most_trees` (at least 1; in an all-reduce: trees of all roots
/// together), as many are used as are allowed, or a few less if that is quicker, and the time is
/// longer than the bound's. The ratio is BusiestEdgeTime by BoundOf(...).time(): less than the
/// maximum, over all cuts, of 1 + E / (k * s), with E edges over the cut and s units on its sending
/// side. An all-reduce has its roots on AllReduceRoots, or on as many of them as there may be
/// trees. Each tree carries `pieces` pieces one after the other: k * pieces pieces in all, times
/// the number of roots in an all-reduce.
///
/// The bound is reached where at every switch as much capacity comes in as goes out (links that are
/// as fast in both directions). An all-reduce reaches the bound of its two phases one after the
/// other.
///
/// Time: polynomial, but of a high degree. In racks of 8 hosts, on one core, about 0.01 s for 16
/// hosts, 0.1 s for 32 and 2 s for 64 (a broadcast or a reduce, with one root: 0.01 s for 64). For
/// more hosts there is the hierarchical algorithm.
OutlineResult MakePackedTrees(const Problem& problem, const CapacityGraph& fabric, int most_trees,
                              int pieces);

}  // namespace harmonaize

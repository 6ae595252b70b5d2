#pragma once

#include <vector>

#include "src/schedule/algorithms/tree.h"
#include "src/schedule/ir/outline.h"

namespace harmonaize {

/// One tree of a shape for each root, over the hosts in the cyclic order of `order` (host numbers;
/// empty: ascending), with the root's host in front. Broadcast, reduce and all-reduce (reduced to
/// the first host and broadcast back) send `pieces` pieces through one tree behind each other: a
/// pipeline. All-gather and reduce-scatter have the tree of every host, and `pieces` pieces a unit;
/// with stars, each host sends to each other directly.
///
/// A chain of h hosts moves a broadcast in pieces + h - 2 steps of 1/pieces of the data each; a
/// binomial tree has the fewest turns, log2 h (Johnsson and Ho, 1989).
OutlineResult MakeRootedTrees(const Problem& problem, TreeShape shape,
                              const std::vector<int>& order, int pieces);

}  // namespace harmonaize

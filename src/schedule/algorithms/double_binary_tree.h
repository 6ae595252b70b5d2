#pragma once

#include <vector>

#include "src/schedule/ir/outline.h"

namespace harmonaize {

/// Two binary trees with half of the data each, over the hosts in the cyclic order of `order` (host
/// numbers; empty: ascending), for all-reduce, broadcast and reduce (Sanders, Speck and Träff,
/// "Two-tree algorithms for full bandwidth broadcast, reduction and scan", 2009). Below the root a
/// host has children in one of the trees at most (one host in both, where the number of others is
/// odd, has none), so each sends and receives about the data's size once in each phase, and the
/// height is logarithmic. Each half follows its tree in `pieces` pieces.
///
/// The root of an all-reduce is the first host of the order.
OutlineResult MakeDoubleBinaryTree(const Problem& problem, const std::vector<int>& order,
                                   int pieces);

}  // namespace harmonaize

#pragma once

#include <vector>

#include "src/schedule/algorithms/tree.h"
#include "src/schedule/ir/outline.h"

namespace harmonaize {

/// All-gather and reduce-scatter with one tree for all blocks. Between two hosts that the tree
/// joins goes one message each way, 2 (h - 1) in all, and no algorithm has fewer. In an all-gather
/// a host waits until it has all blocks that it passes on to a neighbour; blocks that went up come
/// back down to all hosts that lack them. The hosts near the root send and receive the most, so
/// this is for few hosts and small blocks, where messages cost more than their bytes.
///
/// The tree has `shape` over the hosts in `order` (host numbers; empty: ascending), with the first
/// one at its root, and carries `pieces` pieces a unit.
OutlineResult MakeSharedTree(const Problem& problem, TreeShape shape, const std::vector<int>& order,
                             int pieces);

}  // namespace harmonaize

#pragma once

#include <vector>

#include "src/schedule/algorithms/tree.h"
#include "src/schedule/ir/outline.h"

namespace harmonaize {

/// All-gather and reduce-scatter with one tree for all blocks: between two hosts that it joins goes
/// one message each way, 2 (h - 1) in all, and no algorithm has fewer. An all-gather's host waits
/// until all has come that it passes on to a neighbour; what goes up comes back down to all but
/// those who have it. The hosts near the root send and receive the most, so this is for few hosts
/// and small blocks, where messages cost more than their bytes.
///
/// A tree of `shape` over the hosts in `order` (host numbers; empty: ascending), the first one at
/// its root, and `pieces` pieces a unit.
OutlineResult MakeSharedTree(const Problem& problem, TreeShape shape, const std::vector<int>& order,
                             int pieces);

}  // namespace harmonaize

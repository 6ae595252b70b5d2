#pragma once

#include <cstdint>
#include <vector>

#include "src/base/status.h"
#include "src/schedule/algorithms/switch_removal.h"
#include "src/schedule/algorithms/tree.h"

namespace harmonaize {

/// `count` copies of one tree over the nodes of a graph; nodes that are no receivers are absent.
struct TreeBatch {
  int64_t count = 0;
  Tree tree;
};

/// Packs spanning trees into a graph without switches so that no edge is in more trees than its
/// capacity: Edmonds' theorem (1973) made constructive by cuts (Tarjan, 1974; Bérczi and Frank,
/// 2010; Zhao et al., "ForestColl", 2024). Many equal trees are grown as one. Edges near the root
/// are tried first, so that the trees stay low.
///
/// Errors: an internal error if CanPack does not hold. Time: a maximum flow for each edge that is
/// tried, at least (hosts - 1) for each batch.
Result<std::vector<TreeBatch>> PackTrees(const LogicalGraph& graph, const TreeDemand& demand);

}  // namespace harmonaize

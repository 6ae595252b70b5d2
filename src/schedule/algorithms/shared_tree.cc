#include "src/schedule/algorithms/shared_tree.h"

#include <numeric>
#include <string>
#include <utility>

#include "src/schedule/algorithms/forest.h"

namespace harmonaize {
namespace {

/// Returns the tree with the same edges and another root.
Tree Rerooted(const Tree& tree, int root) {
  Tree rerooted = tree;
  rerooted.root = root;
  rerooted.parent[static_cast<size_t>(root)] = -1;
  for (int node = root; node != tree.root;) {
    const int above = tree.parent[static_cast<size_t>(node)];
    rerooted.parent[static_cast<size_t>(above)] = node;
    node = above;
  }
  return rerooted;
}

}  // namespace

OutlineResult MakeSharedTree(const Problem& problem, TreeShape shape, const std::vector<int>& order,
                             int pieces) {
  HZ_RETURN_IF_ERROR(CheckProblem(problem));
  HZ_RETURN_IF_ERROR(CheckPieces(problem, pieces));
  if (problem.collective != Collective::kAllGather &&
      problem.collective != Collective::kReduceScatter) {
    return NotCarriedOut("a shared tree", problem.collective);
  }
  const HostPlacement placement(problem.host_of_rank);
  HZ_ASSIGN_OR_RETURN(const std::vector<int> positions, placement.PositionsOf(order));
  const Tree tree = MakeTree(shape, positions);
  Forest forest;
  forest.pieces = pieces;
  forest.gathers_messages = true;
  for (int position = 0; position < placement.hosts(); ++position) {
    forest.trees.push_back(Rerooted(tree, position));
  }
  std::vector<int> tree_of_host(positions.size());
  std::iota(tree_of_host.begin(), tree_of_host.end(), 0);
  forest.flows = FlowsByRank(problem, placement, pieces, tree_of_host);
  return MakeForestOutline("shared " + std::string(TreeShapeName(shape)), problem,
                           std::move(forest));
}

}  // namespace harmonaize

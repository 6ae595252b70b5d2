#include "src/schedule/algorithms/rooted_tree.h"

#include <algorithm>
#include <string>
#include <utility>

#include "src/schedule/algorithms/forest.h"

namespace harmonaize {

OutlineResult MakeRootedTrees(const Problem& problem, TreeShape shape,
                              const std::vector<int>& order, int pieces) {
  HZ_RETURN_IF_ERROR(CheckProblem(problem));
  HZ_RETURN_IF_ERROR(CheckPieces(problem, pieces));
  const HostPlacement placement(problem.host_of_rank);
  HZ_ASSIGN_OR_RETURN(const std::vector<int> positions, placement.PositionsOf(order));
  Forest forest;
  forest.pieces = pieces;
  switch (problem.collective) {
    case Collective::kAllGather:
    case Collective::kReduceScatter: {
      std::vector<int> tree_of_host(positions.size());
      for (size_t place = 0; place < positions.size(); ++place) {
        forest.trees.push_back(MakeTree(shape, Rotated(positions, static_cast<int>(place))));
        tree_of_host[static_cast<size_t>(positions[place])] = static_cast<int>(place);
      }
      forest.flows = FlowsByRank(problem, placement, pieces, tree_of_host);
      break;
    }
    case Collective::kAllReduce:
    case Collective::kBroadcast:
    case Collective::kReduce: {
      const int root = problem.root < 0 ? positions[0] : placement.PositionOfRank(problem.root);
      const auto place = std::find(positions.begin(), positions.end(), root);
      forest.trees.push_back(
          MakeTree(shape, Rotated(positions, static_cast<int>(place - positions.begin()))));
      for (int piece = 0; piece < pieces; ++piece) {
        forest.flows.push_back(FlowOfPiece(problem.collective, piece, 0, 0, piece));
      }
      break;
    }
    default: return NotCarriedOut("a rooted tree", problem.collective);
  }
  return MakeForestOutline(std::string(TreeShapeName(shape)), problem, std::move(forest));
}

}  // namespace harmonaize

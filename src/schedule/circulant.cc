#include "src/schedule/circulant.h"

#include <utility>

#include "src/schedule/forest.h"

namespace harmonaize {
namespace {

/// By distance d > 0 from the root, how far data travel in the turn in which they leave from there:
/// the largest of the distances h/2, h/4, ..., 1 (rounded up) that does not lead past the root.
std::vector<int> Skips(int hosts) {
  std::vector<int> skips(static_cast<size_t>(hosts), 1);
  int beyond = hosts;
  while (beyond > 1) {
    const int skip = (beyond + 1) / 2;
    for (int distance = skip; distance < beyond; ++distance) {
      skips[static_cast<size_t>(distance)] = skip;
    }
    beyond = skip;
  }
  return skips;
}

Tree TreeTo(const std::vector<int>& order, const std::vector<int>& skips, int root) {
  const int hosts = static_cast<int>(order.size());
  const auto at = [&](int place) {
    return order[static_cast<size_t>((place % hosts + hosts) % hosts)];
  };
  Tree tree{at(root), std::vector<int>(order.size(), -1)};
  for (int distance = 1; distance < hosts; ++distance) {
    tree.parent[static_cast<size_t>(at(root - distance))] =
        at(root - distance + skips[static_cast<size_t>(distance)]);
  }
  return tree;
}

}  // namespace

OutlineResult MakeCirculant(const Problem& problem, const std::vector<int>& order, int pieces) {
  HZ_RETURN_IF_ERROR(CheckProblem(problem));
  const Placement placement(problem.host_of_rank);
  const Result<std::vector<int>> positions = placement.PositionsOf(order);
  if (!positions.ok()) return positions.status();
  const bool all_reduce = problem.collective == Collective::kAllReduce;
  if (!all_reduce && problem.collective != Collective::kAllGather &&
      problem.collective != Collective::kReduceScatter) {
    return NotCarriedOut("the circulant algorithm", problem.collective);
  }
  const int hosts = placement.hosts();
  const int64_t per_unit = int64_t{pieces} * (all_reduce ? hosts : 1);
  HZ_RETURN_IF_ERROR(CheckPieces(problem, per_unit));
  Forest forest;
  forest.pieces = static_cast<int>(per_unit);
  const std::vector<int> skips = Skips(hosts);
  std::vector<int> tree_of_host(positions->size());
  for (int root = 0; root < hosts; ++root) {
    tree_of_host[static_cast<size_t>((*positions)[static_cast<size_t>(root)])] = root;
    forest.trees.push_back(TreeTo(*positions, skips, root));
  }
  if (all_reduce) {
    for (int piece = 0; piece < forest.pieces; ++piece) {
      forest.flows.push_back(
          FlowOfPiece(problem.collective, piece, piece % hosts, piece % hosts, 0));
    }
  } else {
    forest.flows = FlowsByRank(problem, placement, pieces, tree_of_host);
  }
  return MakeForestOutline("circulant", problem, std::move(forest));
}

}  // namespace harmonaize

#include "src/schedule/algorithms/trees_to_hosts.h"

#include <utility>

namespace harmonaize {

OutlineResult MakeTreesToHosts(const Problem& problem, const std::vector<int>& order, int pieces,
                               const TreesToHosts& algorithm) {
  HZ_RETURN_IF_ERROR(CheckProblem(problem));
  const HostPlacement placement(problem.host_of_rank);
  HZ_ASSIGN_OR_RETURN(const std::vector<int> positions, placement.PositionsOf(order));
  const bool all_reduce = problem.collective == Collective::kAllReduce;
  if (!all_reduce && problem.collective != Collective::kAllGather &&
      problem.collective != Collective::kReduceScatter) {
    return NotCarriedOut(algorithm.in_sentence, problem.collective);
  }
  const int roots = all_reduce ? algorithm.all_reduce_roots(placement.hosts()) : placement.hosts();
  const int64_t per_unit = int64_t{pieces} * (all_reduce ? roots : 1);
  HZ_RETURN_IF_ERROR(CheckPieces(problem, per_unit));
  Forest forest;
  forest.pieces = static_cast<int>(per_unit);
  std::vector<int> tree_of_host(positions.size());
  for (int root = 0; root < roots; ++root) {
    tree_of_host[static_cast<size_t>(positions[static_cast<size_t>(root)])] = root;
    forest.trees.push_back(algorithm.tree_to(positions, root));
  }
  if (all_reduce) {
    for (int piece = 0; piece < forest.pieces; ++piece) {
      forest.flows.push_back(
          FlowOfPiece(problem.collective, piece, piece % roots, piece % roots, 0));
    }
  } else {
    forest.flows = FlowsByRank(problem, placement, pieces, tree_of_host);
  }
  return MakeForestOutline(algorithm.name, problem, std::move(forest));
}

}  // namespace harmonaize

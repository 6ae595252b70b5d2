#include "src/schedule/halving_doubling.h"

#include <bit>
#include <utility>

#include "src/schedule/forest.h"

namespace harmonaize {
namespace {

/// In the reduce-scatter for the root r, the host at place i of the 2^k gives its part away in the
/// turn of the highest bit in which i and r differ, to the host that differs from it in this bit.
Tree TreeTo(const std::vector<int>& order, int root) {
  const int hosts = static_cast<int>(order.size());
  const auto core = static_cast<int>(std::bit_floor(static_cast<unsigned>(hosts)));
  const int core_root = root % core;
  Tree tree{order[static_cast<size_t>(root)], std::vector<int>(order.size(), -1)};
  for (int place = 0; place < hosts; ++place) {
    if (place == root) continue;
    int parent = place - core;  // of one that does not take part
    if (place == core_root) {
      parent = root;
    } else if (place < core) {
      parent = place ^ static_cast<int>(std::bit_floor(static_cast<unsigned>(place ^ core_root)));
    }
    tree.parent[static_cast<size_t>(order[static_cast<size_t>(place)])] =
        order[static_cast<size_t>(parent)];
  }
  return tree;
}

}  // namespace

OutlineResult MakeHalvingDoubling(const Problem& problem, const std::vector<int>& order,
                                  int pieces) {
  HZ_RETURN_IF_ERROR(CheckProblem(problem));
  const Placement placement(problem.host_of_rank);
  const Result<std::vector<int>> positions = placement.PositionsOf(order);
  if (!positions.ok()) return positions.status();
  const bool all_reduce = problem.collective == Collective::kAllReduce;
  if (!all_reduce && problem.collective != Collective::kAllGather &&
      problem.collective != Collective::kReduceScatter) {
    return NotCarriedOut("halving and doubling", problem.collective);
  }
  const auto core = static_cast<int>(std::bit_floor(static_cast<unsigned>(placement.hosts())));
  const int roots = all_reduce ? core : placement.hosts();
  const int64_t per_unit = int64_t{pieces} * (all_reduce ? core : 1);
  HZ_RETURN_IF_ERROR(CheckPieces(problem, per_unit));
  Forest forest;
  forest.pieces = static_cast<int>(per_unit);
  std::vector<int> tree_of_host(positions->size());
  for (int root = 0; root < roots; ++root) {
    tree_of_host[static_cast<size_t>((*positions)[static_cast<size_t>(root)])] = root;
    forest.trees.push_back(TreeTo(*positions, root));
  }
  if (all_reduce) {
    for (int piece = 0; piece < forest.pieces; ++piece) {
      forest.flows.push_back(FlowOfPiece(problem.collective, piece, piece % core, piece % core, 0));
    }
  } else {
    forest.flows = FlowsByRank(problem, placement, pieces, tree_of_host);
  }
  return MakeForestOutline("halving-doubling", problem, std::move(forest));
}

}  // namespace harmonaize

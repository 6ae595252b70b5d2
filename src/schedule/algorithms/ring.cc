#include "src/schedule/algorithms/ring.h"

#include <utility>

#include "src/schedule/algorithms/forest.h"

namespace harmonaize {
namespace {

/// The positions of one ring, and its paths.
struct Way {
  std::vector<int> order;
  std::vector<int> paths;  // by place: to the next

  size_t Next(size_t place) const { return place + 1 == order.size() ? 0 : place + 1; }
};

Result<Way> WayOf(const HostPlacement& placement, const Ring& ring) {
  HZ_ASSIGN_OR_RETURN(std::vector<int> order, placement.PositionsOf(ring.order));
  if (!ring.paths.empty() && ring.paths.size() != order.size()) {
    return InvalidArgument(
        "a ring of {} hosts has {} paths; it needs one from each host to the "
        "next, or none",
        order.size(), ring.paths.size());
  }
  Way way{std::move(order), ring.paths};
  if (way.paths.empty()) way.paths.assign(way.order.size(), -1);
  return way;
}

/// Returns the tree by which data goes around the ring to the root at `place`, or away from it.
Tree TreeTowards(const Way& way, size_t place) {
  const size_t hosts = way.order.size();
  Tree tree{way.order[place], std::vector<int>(hosts, -1), std::vector<int>(hosts, -1)};
  for (size_t from = 0; from < hosts; ++from) {
    if (from == place) continue;
    const auto node = static_cast<size_t>(way.order[from]);
    tree.parent[node] = way.order[way.Next(from)];
    tree.path[node] = way.paths[from];
  }
  return tree;
}

Tree TreeFrom(const Way& way, size_t place) {
  const size_t hosts = way.order.size();
  Tree tree{way.order[place], std::vector<int>(hosts, -1), std::vector<int>(hosts, -1)};
  for (size_t from = 0; from < hosts; ++from) {
    const size_t to = way.Next(from);
    if (to == place) continue;
    const auto node = static_cast<size_t>(way.order[to]);
    tree.parent[node] = way.order[from];
    tree.path[node] = way.paths[from];
  }
  return tree;
}

/// Adds the tree of every host of one ring in one direction. Returns the trees' numbers by the
/// position of their host.
std::vector<int> AddTrees(const Way& way, bool towards, Forest& forest) {
  std::vector<int> tree_of_host(way.order.size());
  for (size_t place = 0; place < way.order.size(); ++place) {
    tree_of_host[static_cast<size_t>(way.order[place])] = static_cast<int>(forest.trees.size());
    forest.trees.push_back(towards ? TreeTowards(way, place) : TreeFrom(way, place));
  }
  return tree_of_host;
}

}  // namespace

OutlineResult MakeRings(const Problem& problem, const std::vector<Ring>& rings, int pieces) {
  HZ_RETURN_IF_ERROR(CheckProblem(problem));
  const HostPlacement placement(problem.host_of_rank);
  const bool all_reduce = problem.collective == Collective::kAllReduce;
  if (!all_reduce && problem.collective != Collective::kAllGather &&
      problem.collective != Collective::kReduceScatter) {
    return NotCarriedOut("a ring", problem.collective);
  }
  if (rings.empty()) return InvalidArgument("no ring is given; there has to be one at least");
  const auto count = static_cast<int64_t>(rings.size());
  const int64_t per_unit = pieces * count * (all_reduce ? placement.hosts() : 1);
  HZ_RETURN_IF_ERROR(CheckPieces(problem, per_unit));
  Forest forest;
  forest.pieces = static_cast<int>(per_unit);
  int piece = 0;
  for (const Ring& ring : rings) {
    HZ_ASSIGN_OR_RETURN(const Way way, WayOf(placement, ring));
    std::vector<int> towards;
    std::vector<int> away;
    if (Reduces(problem.collective)) towards = AddTrees(way, true, forest);
    if (problem.collective != Collective::kReduceScatter) away = AddTrees(way, false, forest);
    if (all_reduce) {
      for (int i = 0; i < pieces; ++i) {
        for (const int position : way.order) {
          const auto host = static_cast<size_t>(position);
          forest.flows.push_back({0, piece++, towards[host], away[host], 0});
        }
      }
    } else {
      const std::vector<int>& trees = towards.empty() ? away : towards;
      for (Flow flow : FlowsByRank(problem, placement, pieces, trees)) {
        flow.piece += piece;
        forest.flows.push_back(flow);
      }
      piece += pieces;
    }
  }
  return MakeForestOutline("ring", problem, std::move(forest));
}

}  // namespace harmonaize

#include "src/schedule/algorithms/packed_trees.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "src/schedule/algorithms/forest.h"
#include "src/schedule/algorithms/switch_removal.h"
#include "src/schedule/algorithms/tree_packing.h"
#include "src/schedule/bounds/cut_bound.h"

namespace harmonaize {
namespace {

/// Holds products of two capacities.
__extension__ using Wide = __int128;

/// What one direction of a collective packs: a graph, and how many units every node's host has.
struct Phase {
  CapacityGraph graph;
  std::vector<int64_t> shares;  // by node
  std::vector<int> receivers;   // nodes, by position
};

/// A time that exceeds a bound by the fraction `excess` / kUnit of it.
struct Stretch {
  static constexpr int64_t kUnit = int64_t{1} << 16;
  CutBound bound;
  int64_t excess = 0;
};

/// Returns the graph with the edges' capacities in trees of 1/k unit, within a time.
CapacityGraph InTrees(const Phase& phase, int64_t k, const Stretch& time) {
  CapacityGraph graph = phase.graph;
  const int64_t all = k * std::accumulate(phase.shares.begin(), phase.shares.end(), int64_t{0});
  for (CapacityGraph::Edge& edge : graph.edges) {
    const Wide trees = static_cast<Wide>(edge.capacity) * time.bound.demand * k *
                       (Stretch::kUnit + time.excess) /
                       (static_cast<Wide>(time.bound.capacity) * Stretch::kUnit);
    edge.capacity = static_cast<int64_t>(std::min<Wide>(trees, all));
  }
  return graph;
}

TreeDemand DemandOf(const Phase& phase, int64_t k) {
  TreeDemand demand{phase.shares, phase.receivers};
  for (int64_t& trees : demand.trees) trees *= k;
  return demand;
}

bool Suffices(const Phase& phase, int64_t k, const Stretch& time) {
  const CapacityGraph graph = InTrees(phase, k, time);
  LogicalGraph whole(graph.nodes());
  for (const CapacityGraph::Edge& edge : graph.edges) {
    if (edge.capacity > 0) whole.Add(edge.from, edge.to, edge.capacity, {});
  }
  return CanPack(whole, DemandOf(phase, k));
}

/// Returns the least number of trees a unit for which every edge has time for a whole number of
/// them.
int64_t ExactTrees(const Phase& phase, const CutBound& bound) {
  int64_t common = 0;
  for (const CapacityGraph::Edge& edge : phase.graph.edges) {
    common = std::gcd(common, edge.capacity);
  }
  return bound.capacity / std::gcd(bound.capacity, common);
}

/// Returns the least time in which k trees a unit fit.
Stretch LeastTime(const Phase& phase, const CutBound& bound, int64_t k) {
  Stretch time{bound, 0};
  if (k % ExactTrees(phase, bound) == 0 || Suffices(phase, k, time)) return time;
  int64_t too_short = 0;
  time.excess = Stretch::kUnit / 16;
  while (!Suffices(phase, k, time)) {
    too_short = time.excess;
    time.excess *= 2;
  }
  while (time.excess - too_short > 1) {
    const Stretch between{bound, too_short + (time.excess - too_short) / 2};
    if (Suffices(phase, k, between)) {
      time.excess = between.excess;
    } else {
      too_short = between.excess;
    }
  }
  return time;
}

/// Packed trees with their routes.
struct Packed {
  LogicalGraph graph;
  std::vector<TreeBatch> batches;
};

Result<Packed> Pack(const Phase& phase, int64_t k, Stretch time) {
  const TreeDemand demand = DemandOf(phase, k);
  // If a switch has more capacity in than out, removing it may lose some: then more time is needed.
  constexpr int kTries = 40;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    LogicalGraph logical = RemoveSwitches(InTrees(phase, k, time), demand);
    if (CanPack(logical, demand)) {
      HZ_ASSIGN_OR_RETURN(std::vector<TreeBatch> batches, PackTrees(logical, demand));
      return Packed{std::move(logical), std::move(batches)};
    }
    time.excess += (Stretch::kUnit + time.excess) / 16;
  }
  return InvalidArgument(
      "the fabric's switches take in and give out too unequal capacities to pack "
      "trees");
}

/// Makes a Forest of packed trees.
class ForestMaker {
 public:
  ForestMaker(const CapacityGraph& fabric, std::vector<int> edge_of, std::vector<int> nodes)
      : fabric_(fabric),
        edge_of_(std::move(edge_of)),
        nodes_(std::move(nodes)),
        position_of_(static_cast<size_t>(fabric.nodes()), -1) {
    for (size_t position = 0; position < nodes_.size(); ++position) {
      position_of_[static_cast<size_t>(nodes_[position])] = static_cast<int>(position);
    }
  }

  /// Adds the trees. Returns their numbers by the position of their root, each as often as it
  /// occurs. If `up`, the graph was reversed, and data flows to the root.
  std::vector<std::vector<int>> Add(Packed packed, bool up) {
    std::vector<std::vector<int>> trees_of(nodes_.size());
    for (const TreeBatch& batch : packed.batches) {
      int64_t left = batch.count;
      while (left > 0) {
        const int64_t count = AddTree(packed.graph, batch.tree, left, up);
        const int root = position_of_[static_cast<size_t>(batch.tree.root)];
        auto& trees = trees_of[static_cast<size_t>(root)];
        trees.insert(trees.end(), static_cast<size_t>(count),
                     static_cast<int>(forest.trees.size()) - 1);
        left -= count;
      }
    }
    return trees_of;
  }

  Forest forest;
  RouteTable routes;

 private:
  /// Adds one tree with one route for each edge. Returns how many trees have the same, at most
  /// `most`.
  int64_t AddTree(LogicalGraph& graph, const Tree& by_node, int64_t most, bool up) {
    int64_t count = most;
    for (const int node : nodes_) {
      const int parent = by_node.parent[static_cast<size_t>(node)];
      if (parent >= 0) count = std::min(count, graph.Portions(parent, node).back().capacity);
    }
    const size_t hosts = nodes_.size();
    Tree tree{position_of_[static_cast<size_t>(by_node.root)], std::vector<int>(hosts, -1),
              std::vector<int>(hosts, -1)};
    for (size_t position = 0; position < hosts; ++position) {
      const int node = nodes_[position];
      const int parent = by_node.parent[static_cast<size_t>(node)];
      if (parent < 0) continue;
      Route route = graph.Take(parent, node, count)[0].route;
      for (int& edge : route) edge = edge_of_[static_cast<size_t>(edge)];
      if (up) std::reverse(route.begin(), route.end());
      tree.parent[position] = position_of_[static_cast<size_t>(parent)];
      const int from = up ? node : parent;
      const int to = up ? parent : node;
      tree.path[position] = PathOf(from, to, std::move(route));
    }
    forest.trees.push_back(std::move(tree));
    return count;
  }

  int PathOf(int from, int to, Route route) {
    const auto host = [&](int node) { return fabric_.host_of_node[static_cast<size_t>(node)]; };
    std::vector<Route>& between = routes[{host(from), host(to)}];
    const auto found = std::find(between.begin(), between.end(), route);
    const auto path = static_cast<int>(found - between.begin());
    if (found == between.end()) between.push_back(std::move(route));
    return path;
  }

  const CapacityGraph& fabric_;
  std::vector<int> edge_of_;
  std::vector<int> nodes_;        // by position
  std::vector<int> position_of_;  // by node
};

/// Plans the trees of a collective, in both directions if it has both.
class TreePlan {
 public:
  TreePlan(const Problem& problem, const CapacityGraph& fabric, int most_trees, int pieces)
      : problem_(problem),
        fabric_(fabric),
        placement_(problem.host_of_rank),
        most_trees_(most_trees),
        pieces_(pieces) {}

  OutlineResult Make() {
    HZ_RETURN_IF_ERROR(CheckCapacityGraph(fabric_, placement_));
    PartialGraph part = WithoutOtherHosts(fabric_, placement_);
    const std::vector<int> nodes = NodesOfHosts(fabric_, placement_);
    ForestMaker maker(fabric_, std::move(part.edge_of), nodes);
    const bool up = Reduces(problem_.collective);
    const bool down = problem_.collective != Collective::kReduce &&
                      problem_.collective != Collective::kReduceScatter;
    HZ_ASSIGN_OR_RETURN(const std::vector<int64_t> shares, Shares(part.graph, nodes));
    std::vector<Phase> phases;
    if (up) phases.push_back({Reversed(part.graph), shares, nodes});
    if (down) phases.push_back({part.graph, shares, nodes});
    HZ_RETURN_IF_ERROR(ChooseTrees(phases));
    std::vector<std::vector<int>> up_trees;
    std::vector<std::vector<int>> down_trees;
    for (size_t phase = 0; phase < phases.size(); ++phase) {
      HZ_ASSIGN_OR_RETURN(Packed packed, Pack(phases[phase], trees_, times_[phase]));
      const bool is_up = up && phase == 0;
      (is_up ? up_trees : down_trees) = maker.Add(std::move(packed), is_up);
    }
    HZ_RETURN_IF_ERROR(AddFlows(maker.forest, up_trees, down_trees));
    return MakeForestOutline("packed trees", problem_, std::move(maker.forest),
                             std::move(maker.routes));
  }

 private:
  /// Returns, by node, how many units its host is the root of; for an all-reduce, whether it is a
  /// root.
  Result<std::vector<int64_t>> Shares(const CapacityGraph& graph, const std::vector<int>& nodes) {
    std::vector<int64_t> shares(static_cast<size_t>(graph.nodes()), 0);
    std::vector<int> roots;  // positions
    if (problem_.collective == Collective::kAllReduce) {
      HZ_ASSIGN_OR_RETURN(const std::vector<bool> best, AllReduceRoots(graph, placement_));
      for (int position = 0; position < placement_.hosts(); ++position) {
        if (best[static_cast<size_t>(position)]) roots.push_back(position);
      }
      // There are no more roots than trees allowed, evenly spread.
      const auto candidates = roots;
      roots_ = std::min(static_cast<int>(candidates.size()), most_trees_);
      roots.clear();
      for (int root = 0; root < roots_; ++root) {
        roots.push_back(candidates[static_cast<size_t>(root) * candidates.size() /
                                   static_cast<size_t>(roots_)]);
      }
    } else if (HasRoot(problem_.collective)) {
      roots = {placement_.PositionOfRank(problem_.root)};
    } else {
      for (int position = 0; position < placement_.hosts(); ++position) {
        shares[static_cast<size_t>(nodes[static_cast<size_t>(position)])] =
            static_cast<int64_t>(placement_.RanksAt(position).size());
      }
    }
    for (const int root : roots) {
      shares[static_cast<size_t>(nodes[static_cast<size_t>(root)])] = 1;
    }
    return shares;
  }

  /// Chooses the number of trees a unit, and finds the time of each phase.
  Status ChooseTrees(const std::vector<Phase>& phases) {
    const int64_t most = most_trees_ / roots_;
    std::vector<CutBound> bounds;
    int64_t exact = 1;
    for (const Phase& phase : phases) {
      HZ_ASSIGN_OR_RETURN(CutBound bound,
                          SpanningBound(phase.graph, phase.shares, phase.receivers));
      if (bound.demand > 0) exact = std::lcm(exact, ExactTrees(phase, bound));
      exact = std::min(exact, most + 1);
      bounds.push_back(std::move(bound));
    }
    // If the exact number is too large, slightly fewer trees may suit the capacities better than
    // the most allowed.
    constexpr int64_t kOthers = 4;
    const int64_t first = std::min(exact, most);
    const int64_t last = exact <= most ? exact : std::max<int64_t>(1, most - kOthers + 1);
    double best = 0;
    for (int64_t k = first; k >= last; --k) {
      std::vector<Stretch> times;
      double sum = 0;
      for (size_t i = 0; i < phases.size(); ++i) {
        times.push_back(placement_.hosts() == 1 ? Stretch{} : LeastTime(phases[i], bounds[i], k));
        sum += bounds[i].time() * (1 + static_cast<double>(times.back().excess) / Stretch::kUnit);
      }
      if (trees_ > 0 && sum >= best) continue;
      best = sum;
      trees_ = k;
      times_ = std::move(times);
    }
    return Status::Ok();
  }

  Status AddFlows(Forest& forest, const std::vector<std::vector<int>>& up,
                  const std::vector<std::vector<int>>& down) const {
    const auto tree = [](const std::vector<std::vector<int>>& trees, int position, size_t number) {
      return trees.empty() ? -1 : trees[static_cast<size_t>(position)][number];
    };
    const bool by_rank = problem_.collective == Collective::kAllGather ||
                         problem_.collective == Collective::kReduceScatter;
    const int64_t trees = trees_ * roots_;
    HZ_RETURN_IF_ERROR(CheckPieces(problem_, trees * pieces_));
    forest.pieces = static_cast<int>(trees) * pieces_;
    const bool follow = problem_.collective != Collective::kReduceScatter;
    const auto add = [&](int unit, int number, int up_tree, int down_tree) {
      for (int i = 0; i < pieces_; ++i) {
        const int piece = number + i * static_cast<int>(trees);
        forest.flows.push_back({unit, piece, up_tree, down_tree, follow ? i : 0});
      }
    };
    int number = 0;
    for (int position = 0; position < placement_.hosts(); ++position) {
      const auto& here = (up.empty() ? down : up)[static_cast<size_t>(position)];
      for (size_t i = 0; i < here.size(); ++i) {
        const int up_tree = tree(up, position, i);
        const int down_tree = tree(down, position, i);
        if (by_rank) {
          const auto k = static_cast<size_t>(trees_);
          add(placement_.RanksAt(position)[i / k], static_cast<int>(i % k), up_tree, down_tree);
        } else {
          add(0, number++, up_tree, down_tree);
        }
      }
    }
    return Status::Ok();
  }

  const Problem& problem_;
  const CapacityGraph& fabric_;
  HostPlacement placement_;
  int most_trees_;
  int pieces_;
  int roots_ = 1;               // that share the pieces of an all-reduce
  int64_t trees_ = 0;           // a unit; of an all-reduce, for each root
  std::vector<Stretch> times_;  // by phase
};

}  // namespace

OutlineResult MakePackedTrees(const Problem& problem, const CapacityGraph& fabric, int most_trees,
                              int pieces) {
  HZ_RETURN_IF_ERROR(CheckProblem(problem));
  HZ_RETURN_IF_ERROR(CheckPieces(problem, pieces));
  if (most_trees < 1) return InvalidArgument("{} trees at most; there has to be one", most_trees);
  switch (problem.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
    case Collective::kBroadcast:
    case Collective::kAllGather:
    case Collective::kReduceScatter: break;
    default: return NotCarriedOut("packing of trees", problem.collective);
  }
  return TreePlan(problem, fabric, most_trees, pieces).Make();
}

}  // namespace harmonaize

#include "src/planner/fabric_bound.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

namespace harmonaize {
namespace {

using Classes = std::vector<int>;  // by node

/// Splits classes until all nodes of one have the same capacity from and to each other one (colour
/// refinement; Weisfeiler and Leman, 1968).
Classes Refined(const CapacityGraph& graph, Classes classes) {
  size_t count = 0;
  for (;;) {
    // By node: the capacity that it exchanges with each class.
    std::vector<std::map<std::pair<int, bool>, int64_t>> seen(classes.size());
    for (const CapacityGraph::Edge& edge : graph.edges) {
      const auto from = static_cast<size_t>(edge.from);
      const auto to = static_cast<size_t>(edge.to);
      seen[from][{classes[to], true}] += edge.capacity;
      seen[to][{classes[from], false}] += edge.capacity;
    }
    std::map<std::pair<int, std::map<std::pair<int, bool>, int64_t>>, int> numbers;
    Classes next;
    for (size_t node = 0; node < classes.size(); ++node) {
      const std::pair key(classes[node], std::move(seen[node]));
      next.push_back(numbers.emplace(key, static_cast<int>(numbers.size())).first->second);
    }
    classes = std::move(next);
    if (numbers.size() == count) return classes;
    count = numbers.size();
  }
}

/// The graph with one node for each class.
CapacityGraph Merged(const CapacityGraph& graph, const Classes& classes) {
  CapacityGraph merged;
  merged.host_of_node.assign(
      static_cast<size_t>(*std::max_element(classes.begin(), classes.end())) + 1, -1);
  std::map<std::pair<int, int>, int64_t> capacities;
  for (const CapacityGraph::Edge& edge : graph.edges) {
    const int from = classes[static_cast<size_t>(edge.from)];
    const int to = classes[static_cast<size_t>(edge.to)];
    if (from != to) capacities[{from, to}] += edge.capacity;
  }
  for (const auto& [ends, capacity] : capacities) {
    merged.edges.push_back({ends.first, ends.second, capacity});
  }
  return merged;
}

/// Computes the bounds of one graph from its classes.
class MergedBounds {
 public:
  /// `ranks` is by node; 0 where there are none.
  MergedBounds(const CapacityGraph& graph, const std::vector<int64_t>& ranks)
      : graph_(graph), ranks_(ranks) {
    Classes classes(ranks.begin(), ranks.end());
    for (int& color : classes) color += 1;
    for (size_t node = 0; node < classes.size(); ++node) {
      if (graph.host_of_node[node] < 0) classes[node] = 0;
    }
    classes_ = Refined(graph, std::move(classes));
    std::map<int, int> first;
    for (size_t node = 0; node < ranks.size(); ++node) {
      if (ranks[node] > 0) first.emplace(classes_[node], static_cast<int>(node));
    }
    for (const auto& [color, node] : first) receivers_.push_back(node);
  }

  const std::vector<int>& receivers() const { return receivers_; }
  const Classes& classes() const { return classes_; }

  /// SpanningBound for all hosts with ranks; `apart` is a node with a share of its own, or -1.
  Result<double> Spanning(const std::vector<int64_t>& shares, bool reversed, int apart = -1) const {
    double worst = 0;
    std::vector<int> receivers = receivers_;
    if (apart >= 0) receivers = ReceiversApartFrom(apart);
    for (const int receiver : receivers) {
      if (receiver == apart) continue;
      Classes classes = classes_;
      const int classes_before = *std::max_element(classes.begin(), classes.end()) + 1;
      classes[static_cast<size_t>(receiver)] = classes_before;
      if (apart >= 0) classes[static_cast<size_t>(apart)] = classes_before + 1;
      classes = Refined(graph_, std::move(classes));
      CapacityGraph merged = Merged(graph_, classes);
      if (reversed) merged = Reversed(merged);
      std::vector<int64_t> merged_shares(merged.host_of_node.size(), 0);
      for (size_t node = 0; node < shares.size(); ++node) {
        merged_shares[static_cast<size_t>(classes[node])] += shares[node];
      }
      HZ_ASSIGN_OR_RETURN(
          const CutBound bound,
          SpanningBound(merged, merged_shares, {classes[static_cast<size_t>(receiver)]}));
      worst = std::max(worst, bound.time());
    }
    return worst;
  }

 private:
  std::vector<int> ReceiversApartFrom(int apart) const {
    Classes classes = classes_;
    classes[static_cast<size_t>(apart)] = *std::max_element(classes.begin(), classes.end()) + 1;
    classes = Refined(graph_, std::move(classes));
    std::map<int, int> first;
    for (size_t node = 0; node < ranks_.size(); ++node) {
      if (ranks_[node] > 0) first.emplace(classes[node], static_cast<int>(node));
    }
    std::vector<int> receivers;
    for (const auto& [color, node] : first) receivers.push_back(node);
    return receivers;
  }

  const CapacityGraph& graph_;
  const std::vector<int64_t>& ranks_;
  Classes classes_;
  std::vector<int> receivers_;
};

/// Returns the least sum of both directions' bounds over the sets of roots of AllReduceRoots.
Result<double> AllReduceBound(const CapacityGraph& graph, const MergedBounds& bounds,
                              const std::vector<int64_t>& ranks) {
  std::vector<int64_t> in(ranks.size(), 0);
  std::vector<int64_t> out(ranks.size(), 0);
  for (const CapacityGraph::Edge& edge : graph.edges) {
    out[static_cast<size_t>(edge.from)] += edge.capacity;
    in[static_cast<size_t>(edge.to)] += edge.capacity;
  }
  std::set<int64_t> limits;
  const auto capacity_of = [&](size_t node) { return std::min(in[node], out[node]); };
  for (size_t node = 0; node < ranks.size(); ++node) {
    if (ranks[node] > 0) limits.insert(capacity_of(node));
  }
  double least = std::numeric_limits<double>::infinity();
  for (const bool upwards : {true, false}) {
    for (const int64_t limit : limits) {
      // The last limit downwards admits every host; the upward pass tried that set.
      if (!upwards && limit == *limits.rbegin()) continue;
      std::vector<int64_t> shares(ranks.size(), 0);
      for (size_t node = 0; node < ranks.size(); ++node) {
        const bool root = upwards ? capacity_of(node) >= limit : capacity_of(node) <= limit;
        shares[node] = ranks[node] > 0 && root ? 1 : 0;
      }
      const Result<double> down = bounds.Spanning(shares, false);
      if (!down.ok()) return down;
      const Result<double> up = bounds.Spanning(shares, true);
      if (!up.ok()) return up;
      const auto roots =
          static_cast<double>(std::accumulate(shares.begin(), shares.end(), int64_t{0}));
      least = std::min(least, (*down + *up) / roots);
    }
  }
  return least;
}

/// Bounds all-to-all, gather and scatter by the cuts around each host and around each rack.
double DirectBound(const FabricModel& model, const CapacityGraph& graph, const Problem& problem,
                   const HostPlacement& placement, const std::vector<int>& node_of) {
  const auto all = static_cast<double>(placement.ranks());
  const int root = problem.root < 0 ? -1 : placement.PositionOfRank(problem.root);
  double worst = 0;
  const auto consider = [&](double inside, bool has_root, double in, double out) {
    double leaving = inside * (all - inside);
    double coming = leaving;
    if (problem.collective != Collective::kAllToAll) {
      const bool gather = problem.collective == Collective::kGather;
      leaving = gather ? (has_root ? 0 : inside) : (has_root ? all - inside : 0);
      coming = gather ? (has_root ? all - inside : 0) : (has_root ? 0 : inside);
    }
    if (out > 0) worst = std::max(worst, leaving / out);
    if (in > 0) worst = std::max(worst, coming / in);
  };
  // A rack with the switches that have none of their edges to other racks' hosts.
  std::map<int, std::set<int>> racks;  // by rack: nodes
  std::map<int, double> ranks_of_rack;
  std::set<int> shared;
  for (int position = 0; position < placement.hosts(); ++position) {
    const int node = node_of[static_cast<size_t>(position)];
    const int rack = model.RackOf(placement.HostAt(position));
    racks[rack].insert(node);
    ranks_of_rack[rack] += static_cast<double>(placement.RanksAt(position).size());
  }
  std::map<int, int> rack_of_switch;
  std::map<int, int> rack_of_node;
  for (const auto& [rack, nodes] : racks) {
    for (const int node : nodes) rack_of_node[node] = rack;
  }
  for (const CapacityGraph::Edge& edge : graph.edges) {
    if (graph.host_of_node[static_cast<size_t>(edge.to)] >= 0) continue;
    const auto host = rack_of_node.find(edge.from);
    if (host == rack_of_node.end()) continue;
    const auto [known, is_new] = rack_of_switch.emplace(edge.to, host->second);
    if (!is_new && known->second != host->second) shared.insert(edge.to);
  }
  for (const auto& [node, rack] : rack_of_switch) {
    if (!shared.contains(node)) rack_of_node[node] = rack;
  }
  std::map<int, double> in;
  std::map<int, double> out;
  std::map<int, double> host_in;
  std::map<int, double> host_out;
  for (const CapacityGraph::Edge& edge : graph.edges) {
    const auto from = rack_of_node.find(edge.from);
    const auto to = rack_of_node.find(edge.to);
    const int from_rack = from == rack_of_node.end() ? -1 : from->second;
    const int to_rack = to == rack_of_node.end() ? -1 : to->second;
    const auto capacity = static_cast<double>(edge.capacity);
    host_out[edge.from] += capacity;
    host_in[edge.to] += capacity;
    if (from_rack == to_rack) continue;
    out[from_rack] += capacity;
    in[to_rack] += capacity;
  }
  for (int position = 0; position < placement.hosts(); ++position) {
    const int node = node_of[static_cast<size_t>(position)];
    consider(static_cast<double>(placement.RanksAt(position).size()), position == root,
             host_in[node], host_out[node]);
  }
  for (const auto& [rack, ranks] : ranks_of_rack) {
    const bool has_root = root >= 0 && model.RackOf(placement.HostAt(root)) == rack;
    consider(ranks, has_root, in[rack], out[rack]);
  }
  return worst;
}

Result<double> MergedBound(const FabricModel& model, const CapacityGraph& graph,
                           const Problem& problem, const HostPlacement& placement) {
  const std::vector<int> node_of = NodesOfHosts(graph, placement);
  std::vector<int64_t> ranks(static_cast<size_t>(graph.nodes()), 0);
  for (int position = 0; position < placement.hosts(); ++position) {
    ranks[static_cast<size_t>(node_of[static_cast<size_t>(position)])] =
        static_cast<int64_t>(placement.RanksAt(position).size());
  }
  switch (problem.collective) {
    case Collective::kAllToAll:
    case Collective::kGather:
    case Collective::kScatter: return DirectBound(model, graph, problem, placement, node_of);
    default: break;
  }
  const MergedBounds bounds(graph, ranks);
  if (problem.collective == Collective::kAllReduce) return AllReduceBound(graph, bounds, ranks);
  if (!HasRoot(problem.collective)) {
    return bounds.Spanning(ranks, problem.collective == Collective::kReduceScatter);
  }
  std::vector<int64_t> shares(ranks.size(), 0);
  const int root = node_of[static_cast<size_t>(placement.PositionOfRank(problem.root))];
  shares[static_cast<size_t>(root)] = 1;
  return bounds.Spanning(shares, problem.collective == Collective::kReduce, root);
}

}  // namespace

Result<double> BoundSecondsPerByte(const FabricModel& model, const Problem& problem,
                                   int most_exact) {
  HZ_RETURN_IF_ERROR(CheckProblem(problem));
  const HostPlacement placement(problem.host_of_rank);
  const CapacityGraph fabric = model.GraphFor(placement);
  HZ_RETURN_IF_ERROR(CheckCapacityGraph(fabric, placement));
  if (placement.hosts() == 1) return 0.0;
  if (placement.hosts() <= most_exact) {
    HZ_ASSIGN_OR_RETURN(const CutBound bound, BoundOf(fabric, problem));
    return bound.time() / model.CapacityUnit();
  }
  const Result<double> bound =
      MergedBound(model, WithoutOtherHosts(fabric, placement).graph, problem, placement);
  if (!bound.ok()) return bound;
  return *bound / model.CapacityUnit();
}

}  // namespace harmonaize

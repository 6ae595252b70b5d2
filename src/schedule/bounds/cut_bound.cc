#include "src/schedule/bounds/cut_bound.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "src/schedule/bounds/max_flow.h"

namespace harmonaize {
namespace {

/// Holds products of two capacities.
__extension__ using Wide = __int128;

CutBound InLowestTerms(CutBound bound) {
  const int64_t divisor = std::gcd(bound.demand, bound.capacity);
  bound.demand /= divisor;
  bound.capacity /= divisor;
  return bound;
}

/// Returns whether one bound is worse (larger) than another.
bool Worse(const CutBound& a, const CutBound& b) {
  return static_cast<Wide>(a.demand) * b.capacity > static_cast<Wide>(b.demand) * a.capacity;
}

int64_t CapacityOver(const CapacityGraph& graph, const std::vector<bool>& from_side) {
  int64_t capacity = 0;
  for (const CapacityGraph::Edge& edge : graph.edges) {
    if (from_side[static_cast<size_t>(edge.from)] && !from_side[static_cast<size_t>(edge.to)]) {
      capacity += edge.capacity;
    }
  }
  return capacity;
}

/// The graph with a source that has an edge to each share. At the time demand / capacity, an edge
/// of capacity c carries c * demand, and a share s is s * capacity, all multiplied by `capacity`.
class SpanningFlow {
 public:
  SpanningFlow(const CapacityGraph& graph, const std::vector<int64_t>& shares)
      : graph_(graph), shares_(shares), source_(graph.nodes()), network_(graph.nodes() + 1) {
    for (const CapacityGraph::Edge& edge : graph.edges) network_.AddEdge(edge.from, edge.to, 0);
    for (int node = 0; node < graph.nodes(); ++node) network_.AddEdge(source_, node, 0);
  }

  void SetTime(const CutBound& time) {
    int number = 0;
    for (const CapacityGraph::Edge& edge : graph_.edges) {
      network_.SetCapacity(number++, edge.capacity * time.demand);
    }
    for (const int64_t share : shares_) network_.SetCapacity(number++, share * time.capacity);
  }

  /// Returns what reaches a receiver: all shares if the time is enough for it.
  int64_t Reaches(int receiver) { return network_.MaxFlow(source_, receiver); }

  /// After Reaches: returns the sending side of the cut that limits the flow.
  std::vector<bool> SendingSide() const {
    std::vector<bool> side = network_.SourceSide(source_);
    side.pop_back();
    return side;
  }

 private:
  const CapacityGraph& graph_;
  const std::vector<int64_t>& shares_;
  int source_;
  FlowNetwork network_;
};

CutBound BoundByCut(const CapacityGraph& graph, const std::vector<int64_t>& shares,
                    std::vector<bool> from_side) {
  CutBound bound;
  for (size_t node = 0; node < shares.size(); ++node) {
    if (from_side[node]) bound.demand += shares[node];
  }
  bound.capacity = CapacityOver(graph, from_side);
  bound.from_side = std::move(from_side);
  return bound.capacity > 0 ? InLowestTerms(std::move(bound)) : bound;
}

Status Unreachable(const CapacityGraph& graph, int node) {
  return InvalidArgument("the fabric has no way for all data to host {}",
                         graph.host_of_node[static_cast<size_t>(node)]);
}

/// Computes the bound for data that has to cross a cut in an all-to-all, a gather or a scatter.
class DirectBound {
 public:
  DirectBound(const CapacityGraph& graph, const Problem& problem, const HostPlacement& placement)
      : graph_(graph),
        problem_(problem),
        placement_(placement),
        node_of_(NodesOfHosts(graph, placement)) {}

  /// Considers the worst cut that separates these hosts (by position) from the others, in both
  /// directions.
  Status Consider(const std::vector<bool>& hosts) {
    HZ_RETURN_IF_ERROR(ConsiderSending(hosts));
    std::vector<bool> others = hosts;
    others.flip();
    return ConsiderSending(others);
  }

  const CutBound& worst() const { return worst_; }

 private:
  int64_t Demand(const std::vector<bool>& hosts) const {
    int64_t inside = 0;
    for (int position = 0; position < placement_.hosts(); ++position) {
      if (hosts[static_cast<size_t>(position)]) {
        inside += static_cast<int64_t>(placement_.RanksAt(position).size());
      }
    }
    const int64_t outside = placement_.ranks() - inside;
    if (problem_.collective == Collective::kAllToAll) return inside * outside;
    const bool root_inside = hosts[static_cast<size_t>(placement_.PositionOfRank(problem_.root))];
    if (problem_.collective == Collective::kGather) return root_inside ? 0 : inside;
    return root_inside ? outside : 0;
  }

  Status ConsiderSending(const std::vector<bool>& hosts) {
    const int64_t demand = Demand(hosts);
    if (demand == 0) return Status::Ok();
    const int source = graph_.nodes();
    FlowNetwork network(graph_.nodes() + 2);
    for (const CapacityGraph::Edge& edge : graph_.edges) {
      network.AddEdge(edge.from, edge.to, edge.capacity);
    }
    for (size_t position = 0; position < node_of_.size(); ++position) {
      const int node = node_of_[position];
      if (hosts[position]) {
        network.AddEdge(source, node, FlowNetwork::kUnlimited);
      } else {
        network.AddEdge(node, source + 1, FlowNetwork::kUnlimited);
      }
    }
    CutBound bound{demand, network.MaxFlow(source, source + 1)};
    if (bound.capacity == 0) {
      for (size_t position = 0; position < hosts.size(); ++position) {
        if (!hosts[position]) return Unreachable(graph_, node_of_[position]);
      }
    }
    bound.from_side = network.SourceSide(source);
    bound.from_side.resize(static_cast<size_t>(graph_.nodes()));
    if (Worse(bound, worst_)) worst_ = InLowestTerms(std::move(bound));
    return Status::Ok();
  }

  const CapacityGraph& graph_;
  const Problem& problem_;
  const HostPlacement& placement_;
  std::vector<int> node_of_;  // by position
  CutBound worst_;
};

/// Returns, for every switch, the hosts that have edges to it.
std::vector<std::vector<bool>> HostsOfSwitches(const CapacityGraph& graph,
                                               const HostPlacement& placement) {
  std::vector<std::vector<bool>> hosts(
      static_cast<size_t>(graph.nodes()),
      std::vector<bool>(static_cast<size_t>(placement.hosts()), false));
  for (const CapacityGraph::Edge& edge : graph.edges) {
    const int position =
        placement.PositionOfHost(graph.host_of_node[static_cast<size_t>(edge.from)]);
    const bool to_switch = graph.host_of_node[static_cast<size_t>(edge.to)] < 0;
    if (position >= 0 && to_switch) {
      hosts[static_cast<size_t>(edge.to)][static_cast<size_t>(position)] = true;
    }
  }
  return hosts;
}

Result<CutBound> BoundOfDirect(const CapacityGraph& graph, const Problem& problem,
                               const HostPlacement& placement,
                               const std::vector<const CutBound*>& cuts) {
  DirectBound direct(graph, problem, placement);
  const std::vector<int> node_of = NodesOfHosts(graph, placement);
  std::vector<bool> hosts(static_cast<size_t>(placement.hosts()), false);
  for (size_t position = 0; position < hosts.size(); ++position) {
    hosts[position] = true;
    HZ_RETURN_IF_ERROR(direct.Consider(hosts));
    hosts[position] = false;
  }
  for (const std::vector<bool>& at_switch : HostsOfSwitches(graph, placement)) {
    HZ_RETURN_IF_ERROR(direct.Consider(at_switch));
  }
  for (const CutBound* cut : cuts) {
    for (size_t position = 0; position < hosts.size(); ++position) {
      hosts[position] = cut->from_side[static_cast<size_t>(node_of[position])];
    }
    HZ_RETURN_IF_ERROR(direct.Consider(hosts));
  }
  return direct.worst();
}

}  // namespace

Result<CutBound> SpanningBound(const CapacityGraph& graph, const std::vector<int64_t>& shares,
                               const std::vector<int>& receivers) {
  const int64_t all = std::accumulate(shares.begin(), shares.end(), int64_t{0});
  CutBound worst;
  SpanningFlow flow(graph, shares);
  // The search starts with the cuts around each receiver: they are often the worst, and cost
  // nothing.
  for (const int receiver : receivers) {
    std::vector<bool> others(shares.size(), true);
    others[static_cast<size_t>(receiver)] = false;
    CutBound bound = BoundByCut(graph, shares, std::move(others));
    if (bound.demand > 0 && bound.capacity == 0) return Unreachable(graph, receiver);
    if (Worse(bound, worst)) worst = std::move(bound);
  }
  if (worst.demand == 0) return worst;
  flow.SetTime(worst);
  size_t content = 0;  // receivers in a row that the time is enough for
  for (size_t next = 0; content < receivers.size(); next = (next + 1) % receivers.size()) {
    ++content;
    const int receiver = receivers[next];
    while (flow.Reaches(receiver) < all * worst.capacity) {
      worst = BoundByCut(graph, shares, flow.SendingSide());
      if (worst.capacity == 0) return Unreachable(graph, receiver);
      flow.SetTime(worst);
      content = 1;
    }
  }
  return worst;
}

Result<std::vector<bool>> AllReduceRoots(const CapacityGraph& graph,
                                         const HostPlacement& placement) {
  const std::vector<int> nodes = NodesOfHosts(graph, placement);
  std::vector<int64_t> in(static_cast<size_t>(graph.nodes()), 0);
  std::vector<int64_t> out = in;
  for (const CapacityGraph::Edge& edge : graph.edges) {
    out[static_cast<size_t>(edge.from)] += edge.capacity;
    in[static_cast<size_t>(edge.to)] += edge.capacity;
  }
  const auto capacity_of = [&](int node) {
    return std::min(in[static_cast<size_t>(node)], out[static_cast<size_t>(node)]);
  };
  std::vector<int64_t> classes;
  for (const int node : nodes) classes.push_back(capacity_of(node));
  std::sort(classes.begin(), classes.end());
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  const CapacityGraph reversed = Reversed(graph);
  std::vector<bool> best;
  double best_time = 0;
  for (size_t i = 0; i < 2 * classes.size(); ++i) {
    const bool upwards = i < classes.size();
    const int64_t limit = classes[i % classes.size()];
    std::vector<int64_t> shares(static_cast<size_t>(graph.nodes()), 0);
    std::vector<bool> roots;
    for (const int node : nodes) {
      roots.push_back(upwards ? capacity_of(node) >= limit : capacity_of(node) <= limit);
      shares[static_cast<size_t>(node)] = roots.back() ? 1 : 0;
    }
    double time = 0;
    for (const CapacityGraph* direction : {&graph, &reversed}) {
      HZ_ASSIGN_OR_RETURN(const CutBound bound, SpanningBound(*direction, shares, nodes));
      time += bound.time();
    }
    time /= static_cast<double>(std::count(roots.begin(), roots.end(), true));
    // More roots mean lower trees, so fewer roots must be faster to be chosen.
    if (!best.empty() && time > best_time * (1 - 1e-9)) continue;
    best = std::move(roots);
    best_time = time;
  }
  return best;
}

Result<CutBound> BoundOf(const CapacityGraph& fabric, const Problem& problem) {
  HZ_RETURN_IF_ERROR(CheckProblem(problem));
  const HostPlacement placement(problem.host_of_rank);
  HZ_RETURN_IF_ERROR(CheckCapacityGraph(fabric, placement));
  const CapacityGraph graph = WithoutOtherHosts(fabric, placement).graph;
  if (placement.hosts() == 1) return CutBound{};
  const std::vector<int> nodes = NodesOfHosts(graph, placement);
  const Collective collective = problem.collective;
  std::vector<int64_t> shares(static_cast<size_t>(graph.nodes()), 0);
  for (size_t position = 0; position < nodes.size(); ++position) {
    const size_t ranks = placement.RanksAt(static_cast<int>(position)).size();
    shares[static_cast<size_t>(nodes[position])] = static_cast<int64_t>(ranks);
  }
  if (collective == Collective::kAllReduce) {
    HZ_ASSIGN_OR_RETURN(const std::vector<bool> roots, AllReduceRoots(graph, placement));
    for (size_t position = 0; position < nodes.size(); ++position) {
      shares[static_cast<size_t>(nodes[position])] = roots[position] ? 1 : 0;
    }
  }
  if (collective == Collective::kBroadcast || collective == Collective::kReduce) {
    std::fill(shares.begin(), shares.end(), 0);
    const auto root = static_cast<size_t>(placement.PositionOfRank(problem.root));
    shares[static_cast<size_t>(nodes[root])] = 1;
  }
  const bool only_up =
      collective == Collective::kReduce || collective == Collective::kReduceScatter;
  const bool only_down =
      collective == Collective::kBroadcast || collective == Collective::kAllGather;
  CutBound down;
  if (!only_up) {
    Result<CutBound> bound = SpanningBound(graph, shares, nodes);
    if (!bound.ok() || only_down) return bound;
    down = *std::move(bound);
  }
  HZ_ASSIGN_OR_RETURN(CutBound bound, SpanningBound(Reversed(graph), shares, nodes));
  CutBound up = std::move(bound);
  up.from_side.flip();  // of the graph as it is
  if (only_up) return up;
  if (collective != Collective::kAllReduce) {
    return BoundOfDirect(graph, problem, placement, {&down, &up});
  }
  // Each root has an equal part of the unit.
  CutBound sum = down;
  const int64_t common = std::lcm(down.capacity, up.capacity);
  sum.demand = down.demand * (common / down.capacity) + up.demand * (common / up.capacity);
  sum.capacity = common * std::accumulate(shares.begin(), shares.end(), int64_t{0});
  return InLowestTerms(std::move(sum));
}

}  // namespace harmonaize

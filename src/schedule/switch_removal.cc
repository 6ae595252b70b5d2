#include "src/schedule/switch_removal.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "src/schedule/max_flow.h"

namespace harmonaize {
namespace {

/// For products of two capacities.
__extension__ using Wide = __int128;

/// A logical graph as a network, with a source of all trees behind the nodes, and a sink behind
/// that.
class TreeFlow {
 public:
  TreeFlow(const LogicalGraph& graph, const TreeDemand& demand)
      : source_(graph.nodes()), sink_(graph.nodes() + 1), network_(graph.nodes() + 2) {
    for (int from = 0; from < graph.nodes(); ++from) {
      for (int to = 0; to < graph.nodes(); ++to) {
        if (graph.Capacity(from, to) > 0) network_.AddEdge(from, to, graph.Capacity(from, to));
      }
    }
    for (int node = 0; node < graph.nodes(); ++node) {
      const int64_t trees = demand.trees[static_cast<size_t>(node)];
      from_source_.push_back(network_.AddEdge(source_, node, trees));
      to_sink_.push_back(network_.AddEdge(node, sink_, 0));
    }
    trees_ = demand.trees;
  }

  int64_t To(int node) { return network_.MaxFlow(source_, node); }

  /// The least cut with the source and the nodes `in` on one side and `out` on the other.
  int64_t CutBetween(const std::vector<int>& in, const std::vector<int>& out) {
    for (const int node : in) Set(from_source_, node, FlowNetwork::kUnlimited);
    for (const int node : out) Set(to_sink_, node, FlowNetwork::kUnlimited);
    const int64_t cut = network_.MaxFlow(source_, sink_);
    for (const int node : in) Set(from_source_, node, trees_[static_cast<size_t>(node)]);
    for (const int node : out) Set(to_sink_, node, 0);
    return cut;
  }

 private:
  void Set(const std::vector<int>& edges, int node, int64_t capacity) {
    network_.SetCapacity(edges[static_cast<size_t>(node)], capacity);
  }

  int source_;
  int sink_;
  FlowNetwork network_;
  std::vector<int> from_source_;  // edges, by node
  std::vector<int> to_sink_;
  std::vector<int64_t> trees_;
};

class SwitchRemoval {
 public:
  SwitchRemoval(const CapacityGraph& fabric, const TreeDemand& demand)
      : demand_(demand),
        graph_(fabric.nodes()),
        is_host_(static_cast<size_t>(fabric.nodes()), false) {
    for (size_t edge = 0; edge < fabric.edges.size(); ++edge) {
      const CapacityGraph::Edge& one = fabric.edges[edge];
      if (one.capacity > 0) graph_.Add(one.from, one.to, one.capacity, {static_cast<int>(edge)});
    }
    for (const int node : demand.receivers) is_host_[static_cast<size_t>(node)] = true;
  }

  LogicalGraph Run() {
    std::vector<int> switches;
    for (int node = 0; node < graph_.nodes(); ++node) {
      if (!is_host_[static_cast<size_t>(node)]) switches.push_back(node);
    }
    // Those next to most hosts first: what lies behind then becomes a switch of these hosts.
    const auto hosts_at = [&](int node) {
      int hosts = 0;
      for (const int host : demand_.receivers) hosts += graph_.Capacity(host, node) > 0 ? 1 : 0;
      return hosts;
    };
    while (!switches.empty()) {
      const auto next = std::max_element(switches.begin(), switches.end(),
                                         [&](int a, int b) { return hosts_at(a) < hosts_at(b); });
      Remove(*next);
      switches.erase(next);
    }
    return std::move(graph_);
  }

 private:
  std::vector<int> Neighbours(int node, bool in) const {
    std::vector<int> neighbours;
    for (int other = 0; other < graph_.nodes(); ++other) {
      const int64_t capacity = in ? graph_.Capacity(other, node) : graph_.Capacity(node, other);
      if (capacity > 0) neighbours.push_back(other);
    }
    return neighbours;
  }

  void Remove(int node) {
    DealOut(node);
    for (const bool turns_back : {false, true}) {
      for (const int to : Neighbours(node, false)) {
        for (const int from : Neighbours(node, true)) {
          if ((from == to) != turns_back || graph_.Capacity(node, to) == 0) continue;
          const int64_t most = Splittable(from, node, to);
          if (most > 0) graph_.Split(from, node, to, most);
        }
      }
    }
    graph_.Isolate(node);
  }

  struct Pair {
    int from = 0;
    int to = 0;
    int64_t capacity = 0;
  };

  /// Deals all of a switch's capacity out, if the graph can bear it, or half as much, and so on.
  void DealOut(int node) {
    const std::vector<Pair> pairs = EvenPairs(node);
    for (int64_t part = 1; part <= 4; part *= 2) {
      LogicalGraph tried = graph_;
      for (const Pair& pair : pairs) {
        if (pair.capacity / part > 0) tried.Split(pair.from, node, pair.to, pair.capacity / part);
      }
      if (!CanPack(tried, demand_)) continue;
      graph_ = std::move(tried);
      return;
    }
  }

  /// What leads to and from other switches goes to the hosts; the hosts share the rest among each
  /// other. Every pair gets capacity by the capacities of its ends.
  std::vector<Pair> EvenPairs(int node) const {
    std::vector<int64_t> in(static_cast<size_t>(graph_.nodes()));
    std::vector<int64_t> out(in.size());
    for (int other = 0; other < graph_.nodes(); ++other) {
      in[static_cast<size_t>(other)] = graph_.Capacity(other, node);
      out[static_cast<size_t>(other)] = graph_.Capacity(node, other);
    }
    std::vector<Pair> pairs;
    const auto deal = [&](bool from_host, bool to_host) {
      Deal(in, out, from_host, to_host, pairs);
    };
    deal(false, true);
    deal(true, false);
    deal(true, true);
    return pairs;
  }

  void Deal(std::vector<int64_t>& in, std::vector<int64_t>& out, bool from_host, bool to_host,
            std::vector<Pair>& pairs) const {
    const std::vector<int64_t> all_in = in;
    const std::vector<int64_t> all_out = out;
    int64_t total = 0;
    for (size_t to = 0; to < out.size(); ++to) total += is_host_[to] == to_host ? all_out[to] : 0;
    for (size_t from = 0; from < in.size(); ++from) {
      if (is_host_[from] != from_host || all_in[from] == 0) continue;
      const int64_t others = total - (from_host == to_host ? all_out[from] : 0);
      if (others == 0) continue;
      for (size_t to = 0; to < out.size(); ++to) {
        if (is_host_[to] != to_host || from == to) continue;
        const int64_t even =
            static_cast<int64_t>(static_cast<Wide>(all_in[from]) * all_out[to] / others);
        const int64_t capacity = std::min({even, in[from], out[to]});
        if (capacity == 0) continue;
        in[from] -= capacity;
        out[to] -= capacity;
        pairs.push_back({static_cast<int>(from), static_cast<int>(to), capacity});
      }
    }
  }

  /// How much of from -> by -> to can be led past `by`: a cut that parts `by` from both ends loses
  /// it, and has to keep what all trees need where a receiver is on the far side.
  int64_t Splittable(int from, int by, int to) {
    int64_t most = std::min(graph_.Capacity(from, by), graph_.Capacity(by, to));
    TreeFlow flow(graph_, demand_);
    const int64_t needed = demand_.total();
    const auto limit = [&](const std::vector<int>& in, const std::vector<int>& out) {
      most = std::min(most, flow.CutBetween(in, out) - needed);
    };
    const bool ends_at_host =
        is_host_[static_cast<size_t>(from)] || is_host_[static_cast<size_t>(to)];
    if (ends_at_host) limit({by}, {from, to});
    for (const int receiver : demand_.receivers) {
      if (most <= 0) return 0;
      if (receiver == from || receiver == to) continue;
      limit({from, to}, {by, receiver});
      if (!ends_at_host) limit({by}, {from, to, receiver});
    }
    return std::max<int64_t>(most, 0);
  }

  const TreeDemand& demand_;
  LogicalGraph graph_;
  std::vector<bool> is_host_;  // by node
};

}  // namespace

int64_t TreeDemand::total() const {
  return std::accumulate(trees.begin(), trees.end(), int64_t{0});
}

void LogicalGraph::Add(int from, int to, int64_t capacity, Route route) {
  capacity_[Cell(from, to)] += capacity;
  std::vector<Portion>& portions = portions_[Cell(from, to)];
  if (!portions.empty() && portions.back().route == route) {
    portions.back().capacity += capacity;
  } else {
    portions.push_back({capacity, std::move(route)});
  }
}

std::vector<LogicalGraph::Portion> LogicalGraph::Take(int from, int to, int64_t capacity) {
  capacity_[Cell(from, to)] -= capacity;
  std::vector<Portion>& portions = portions_[Cell(from, to)];
  std::vector<Portion> taken;
  while (capacity > 0) {
    Portion& last = portions.back();
    const int64_t part = std::min(capacity, last.capacity);
    taken.push_back({part, last.route});
    last.capacity -= part;
    capacity -= part;
    if (last.capacity == 0) portions.pop_back();
  }
  return taken;
}

void LogicalGraph::Split(int from, int by, int to, int64_t capacity) {
  std::vector<Portion> first = Take(from, by, capacity);
  std::vector<Portion> second = Take(by, to, capacity);
  if (from == to) return;
  while (!first.empty()) {
    const int64_t part = std::min(first.back().capacity, second.back().capacity);
    Route route = first.back().route;
    route.insert(route.end(), second.back().route.begin(), second.back().route.end());
    Add(from, to, part, std::move(route));
    if ((first.back().capacity -= part) == 0) first.pop_back();
    if ((second.back().capacity -= part) == 0) second.pop_back();
  }
}

void LogicalGraph::Isolate(int node) {
  for (int other = 0; other < nodes_; ++other) {
    for (const size_t cell : {Cell(node, other), Cell(other, node)}) {
      capacity_[cell] = 0;
      portions_[cell].clear();
    }
  }
}

bool CanPack(const LogicalGraph& graph, const TreeDemand& demand) {
  TreeFlow flow(graph, demand);
  const int64_t needed = demand.total();
  return std::all_of(demand.receivers.begin(), demand.receivers.end(),
                     [&](int receiver) { return flow.To(receiver) >= needed; });
}

LogicalGraph RemoveSwitches(const CapacityGraph& graph, const TreeDemand& demand) {
  return SwitchRemoval(graph, demand).Run();
}

}  // namespace harmonaize

#include "src/schedule/algorithms/switch_removal.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "src/schedule/bounds/max_flow.h"

namespace harmonaize {
namespace {

/// Holds products of two capacities.
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

  /// Returns the least cut with the source and the nodes `in` on one side and `out` on the other.
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
    // Switches next to most hosts come first: those behind them then become switches of these
    // hosts.
    std::vector<int> hosts_at(static_cast<size_t>(graph_.nodes()), 0);
    for (const int node : switches) {
      for (const int host : demand_.receivers) {
        hosts_at[static_cast<size_t>(node)] += graph_.Capacity(host, node) > 0 ? 1 : 0;
      }
    }
    std::stable_sort(switches.begin(), switches.end(), [&](int a, int b) {
      return hosts_at[static_cast<size_t>(a)] > hosts_at[static_cast<size_t>(b)];
    });
    for (const int node : switches) Remove(node);
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

  /// Deals out all of a switch's capacity if the graph allows that: over hosts that are not joined
  /// yet (the racks of a spine) or else over all. If it does not, half as much is tried, and so on.
  void DealOut(int node) {
    if (Try(EvenPairs(node, true), node, 1)) return;
    const std::vector<Pair> pairs = EvenPairs(node, false);
    for (int64_t part = 1; part <= 4; part *= 2) {
      if (Try(pairs, node, part)) return;
    }
  }

  bool Try(const std::vector<Pair>& pairs, int node, int64_t part) {
    if (pairs.empty()) return false;
    LogicalGraph tried = graph_;
    for (const Pair& pair : pairs) {
      if (pair.capacity / part > 0) tried.Split(pair.from, node, pair.to, pair.capacity / part);
    }
    if (!CanPack(tried, demand_)) return false;
    graph_ = std::move(tried);
    return true;
  }

  /// Returns capacities for pairs of neighbours, in proportion to those of their ends. Capacity to
  /// and from other switches goes to the hosts; the hosts share the rest among each other.
  std::vector<Pair> EvenPairs(int node, bool only_strangers) const {
    std::vector<int64_t> in;
    std::vector<int64_t> out;
    for (int other = 0; other < graph_.nodes(); ++other) {
      in.push_back(graph_.Capacity(other, node));
      out.push_back(graph_.Capacity(node, other));
    }
    std::vector<Pair> pairs;
    Deal(in, out, false, true, false, pairs);
    Deal(in, out, true, false, false, pairs);
    Deal(in, out, true, true, only_strangers, pairs);
    DealRest(in, out, pairs);
    return pairs;
  }

  /// Deals out the capacity that the hosts have left: to any host that can take it, or, where only
  /// the sender itself could, into the middle of another pair.
  void DealRest(std::vector<int64_t>& in, std::vector<int64_t>& out,
                std::vector<Pair>& pairs) const {
    const auto give = [&](int from, int to, int64_t capacity) {
      in[static_cast<size_t>(from)] -= capacity;
      out[static_cast<size_t>(to)] -= capacity;
      pairs.push_back({from, to, capacity});
    };
    for (const int from : demand_.receivers) {
      for (const int to : demand_.receivers) {
        const int64_t both = std::min(in[static_cast<size_t>(from)], out[static_cast<size_t>(to)]);
        if (from != to && both > 0) give(from, to, both);
      }
    }
    for (const int host : demand_.receivers) {
      int64_t& rest = in[static_cast<size_t>(host)];
      const size_t count = pairs.size();
      for (size_t i = 0; i < count; ++i) {
        const Pair pair = pairs[i];
        const int64_t capacity = std::min({rest, out[static_cast<size_t>(host)], pair.capacity});
        if (capacity == 0 || pair.from == host || pair.to == host) continue;
        pairs[i].capacity -= capacity;
        in[static_cast<size_t>(pair.from)] += capacity;
        out[static_cast<size_t>(pair.to)] += capacity;
        give(pair.from, host, capacity);
        give(host, pair.to, capacity);
      }
    }
  }

  /// Deals each sender's capacity over the receivers behind it in cyclic order; the fraction left
  /// of a share goes to the next one.
  void Deal(std::vector<int64_t>& in, std::vector<int64_t>& out, bool from_host, bool to_host,
            bool only_strangers, std::vector<Pair>& pairs) const {
    const int nodes = graph_.nodes();
    const std::vector<int64_t> all_out = out;
    for (int from = 0; from < nodes; ++from) {
      const auto sender = static_cast<size_t>(from);
      const int64_t has = in[sender];
      if (is_host_[sender] != from_host || has == 0) continue;
      std::vector<int> receivers;
      int64_t total = 0;
      for (int step = 1; step < nodes; ++step) {
        const int to = (from + step) % nodes;
        const auto receiver = static_cast<size_t>(to);
        if (is_host_[receiver] != to_host || all_out[receiver] == 0) continue;
        if (only_strangers && graph_.Capacity(from, to) > 0) continue;
        receivers.push_back(to);
        total += all_out[receiver];
      }
      Wide due = 0;
      int64_t given = 0;
      for (const int to : receivers) {
        const auto receiver = static_cast<size_t>(to);
        due += static_cast<Wide>(has) * all_out[receiver];
        const int64_t capacity = std::min(static_cast<int64_t>(due / total) - given, out[receiver]);
        if (capacity <= 0) continue;
        given += capacity;
        in[sender] -= capacity;
        out[receiver] -= capacity;
        pairs.push_back({from, to, capacity});
      }
    }
  }

  /// Returns how much of from -> by -> to can be led past `by`. A cut that separates `by` from both
  /// ends loses that much, and has to keep what all trees need if a receiver is on the far side.
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

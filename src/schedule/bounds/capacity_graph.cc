#include "src/schedule/bounds/capacity_graph.h"

#include <algorithm>
#include <set>

namespace harmonaize {

int CapacityGraph::AddHost(int host) {
  host_of_node.push_back(host);
  return nodes() - 1;
}

int CapacityGraph::AddSwitch() {
  return AddHost(-1);
}

void CapacityGraph::AddLink(int a, int b, int64_t capacity) {
  edges.push_back({a, b, capacity});
  edges.push_back({b, a, capacity});
}

Status CheckCapacityGraph(const CapacityGraph& graph, const HostPlacement& placement) {
  // Bound of the capacities: their sum, multiplied by numbers of trees, must fit into 64 bits.
  constexpr int64_t kMostCapacity = int64_t{1} << 36;
  int64_t total = 0;
  for (const CapacityGraph::Edge& edge : graph.edges) {
    const auto known = [&](int node) { return node >= 0 && node < graph.nodes(); };
    if (!known(edge.from) || !known(edge.to) || edge.from == edge.to) {
      return InvalidArgument("an edge of the fabric goes from node {} to node {}; there are {}",
                             edge.from, edge.to, graph.nodes());
    }
    if (edge.capacity <= 0 || edge.capacity > kMostCapacity) {
      return InvalidArgument(
          "the edge from node {} to node {} has capacity {}, which is not in 1 to {}", edge.from,
          edge.to, edge.capacity, kMostCapacity);
    }
    total += edge.capacity;
    if (total > kMostCapacity) {
      return InvalidArgument("the fabric's capacities add up to more than {}; use a larger unit",
                             kMostCapacity);
    }
  }
  std::set<int> hosts;
  for (const int host : graph.host_of_node) {
    if (host < -1) return InvalidArgument("the fabric has a node of host {}", host);
    if (host >= 0 && !hosts.insert(host).second) {
      return InvalidArgument("host {} has two nodes in the fabric", host);
    }
  }
  for (int position = 0; position < placement.hosts(); ++position) {
    if (!hosts.contains(placement.HostAt(position))) {
      return InvalidArgument("host {} has no node in the fabric", placement.HostAt(position));
    }
  }
  return Status::Ok();
}

CapacityGraph Reversed(const CapacityGraph& graph) {
  CapacityGraph reversed = graph;
  for (CapacityGraph::Edge& edge : reversed.edges) std::swap(edge.from, edge.to);
  return reversed;
}

std::vector<int> NodesOfHosts(const CapacityGraph& graph, const HostPlacement& placement) {
  std::vector<int> nodes(static_cast<size_t>(placement.hosts()), -1);
  for (int node = 0; node < graph.nodes(); ++node) {
    const int position = placement.PositionOfHost(graph.host_of_node[static_cast<size_t>(node)]);
    if (position >= 0) nodes[static_cast<size_t>(position)] = node;
  }
  return nodes;
}

PartialGraph WithoutOtherHosts(const CapacityGraph& graph, const HostPlacement& placement) {
  PartialGraph part;
  part.graph.host_of_node = graph.host_of_node;
  const auto takes_part = [&](int node) {
    const int host = graph.host_of_node[static_cast<size_t>(node)];
    return host < 0 || placement.PositionOfHost(host) >= 0;
  };
  for (size_t edge = 0; edge < graph.edges.size(); ++edge) {
    if (!takes_part(graph.edges[edge].from) || !takes_part(graph.edges[edge].to)) continue;
    part.graph.edges.push_back(graph.edges[edge]);
    part.edge_of.push_back(static_cast<int>(edge));
  }
  return part;
}

Result<std::vector<double>> LoadOfEdges(const CapacityGraph& graph, const RouteTable& routes,
                                        const Summary& summary) {
  std::vector<double> carried(graph.edges.size(), 0);
  for (const Load& load : summary.loads) {
    const auto found = routes.find({load.from_host, load.to_host});
    const auto path = static_cast<size_t>(load.path);
    if (load.path < 0 || found == routes.end() || path >= found->second.size()) {
      return InvalidArgument("there is no path {} from host {} to host {}", load.path,
                             load.from_host, load.to_host);
    }
    for (const int edge : found->second[path]) {
      carried[static_cast<size_t>(edge)] +=
          static_cast<double>(load.blocks) / static_cast<double>(summary.pieces);
    }
  }
  return carried;
}

Result<double> BusiestEdgeTime(const CapacityGraph& graph, const RouteTable& routes,
                               const Summary& summary) {
  HZ_ASSIGN_OR_RETURN(const std::vector<double> carried, LoadOfEdges(graph, routes, summary));
  double longest = 0;
  for (size_t edge = 0; edge < graph.edges.size(); ++edge) {
    longest = std::max(longest, carried[edge] / static_cast<double>(graph.edges[edge].capacity));
  }
  return longest;
}

}  // namespace harmonaize

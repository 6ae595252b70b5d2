#pragma once

#include <cstdint>
#include <vector>

#include "src/base/status.h"
#include "src/schedule/ir/host_placement.h"
#include "src/schedule/ir/routes.h"
#include "src/schedule/ir/summary.h"

namespace harmonaize {

/// A fabric, for algorithms: the edges by which data can go, and their rates. Nodes are hosts and
/// switches; a host has as many edges as it has network interfaces. A plain value.
struct CapacityGraph {
  struct Edge {
    int from = 0;  ///< Nodes.
    int to = 0;
    int64_t capacity = 0;  ///< > 0, in one unit for the whole graph (Mbit/s, say).
  };
  std::vector<int> host_of_node;  ///< By node: the number of its host; -1: a switch.
  std::vector<Edge> edges;  ///< One for each direction; several between two nodes are several.

  int nodes() const { return static_cast<int>(host_of_node.size()); }

  /// Adds a node and returns its number.
  int AddHost(int host);
  int AddSwitch();
  /// Adds an edge in each direction.
  void AddLink(int a, int b, int64_t capacity);
};

/// Returns ok if nodes and capacities are in range, no host has two nodes, and every host of the
/// placement has one. The error names what is wrong.
Status CheckCapacityGraph(const CapacityGraph& graph, const HostPlacement& placement);

/// Returns the graph with every edge reversed, at the same index.
CapacityGraph Reversed(const CapacityGraph& graph);

/// Returns, by position, the node of the host, or -1 if there is none.
std::vector<int> NodesOfHosts(const CapacityGraph& graph, const HostPlacement& placement);

/// A graph with the same nodes but without the edges of hosts that have no ranks, which forward
/// nothing.
struct PartialGraph {
  CapacityGraph graph;
  std::vector<int> edge_of;  ///< By edge: its index in the whole graph.
};
PartialGraph WithoutOtherHosts(const CapacityGraph& graph, const HostPlacement& placement);

/// Returns, by edge, the units of `count` elements that it carries when the loads take the routes
/// that their paths name. Errors: a load names a path that is not in the table.
Result<std::vector<double>> LoadOfEdges(const CapacityGraph& graph, const RouteTable& routes,
                                        const Summary& summary);

/// Returns the time of the edge that is busy longest: load by capacity, in units of `count`
/// elements by the graph's unit of capacity.
Result<double> BusiestEdgeTime(const CapacityGraph& graph, const RouteTable& routes,
                               const Summary& summary);

}  // namespace harmonaize

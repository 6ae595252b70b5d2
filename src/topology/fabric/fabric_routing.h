#pragma once

#include <cstddef>
#include <vector>

#include "src/topology/fabric/fabric.h"

namespace harmonaize {

/// Edges, one after the other, from one host to another.
using Route = std::vector<int>;

/// Finds the ways through a fabric: the shortest ones, counted in links, as routers with equal-cost
/// multipath (ECMP, RFC 2992) find them. Traffic passes only through nodes that forward.
///
/// A host that does not forward is entered and left by the NIC that is named, so a pair of NICs is
/// a rail. A host that forwards is a router of its own: all its NICs are equally good.
///
/// Explicit path p of a destination takes, at every node, one of the equally short next hops: one
/// that leads to a node that preference p names if there is one, else the (p modulo their
/// number)-th. So between two racks path p crosses spine p.
///
/// Borrows the fabric. Thread: any, after construction.
class FabricRouting {
 public:
  /// `down[l]` true: link l carries nothing, and ways avoid it. Empty: all links carry.
  explicit FabricRouting(const Fabric& fabric, std::vector<bool> down = {});

  /// Returns the number of links from `node` to `to`; 0 at its host itself; -1 when no way leads
  /// there.
  int Distance(int node, Endpoint to) const;
  /// Returns the edges that leave `node` on the shortest ways to `to`, by neighbour and then by
  /// link.
  std::vector<int> NextHops(int node, Endpoint to) const;
  /// Returns the next hop that explicit path `path` takes, or -1 when there is none.
  int ExplicitNextHop(int node, Endpoint to, int path) const;
  /// Returns the NIC by which `host` sends to `to` unless told otherwise: the nearest to it; of
  /// several the one with the destination's index. -1 when none reaches it.
  int NicTowards(int host, Endpoint to) const;

  /// Returns the shortest ways from one NIC to another, at most `most`; none where no way leads.
  std::vector<Route> EqualCostRoutes(Endpoint from, Endpoint to, size_t most = 64) const;
  /// Returns the route of explicit path `path`; empty where no way leads.
  Route ExplicitRoute(Endpoint from, Endpoint to, int path) const;

  /// Returns the largest number of equally short next hops that any node has for any destination,
  /// without hosts that do not forward. That many explicit paths use every one of them.
  int Fanout() const;

 private:
  bool Down(int link) const;
  /// Returns whether a way may go on from `node`, or ends there.
  bool Passes(int node, int destination) const;
  bool EntersBy(int edge, Endpoint to) const;
  /// Returns the edge from NIC `from`, with which a way from a host that does not forward starts.
  int FirstEdge(Endpoint from) const;
  size_t IndexOf(Endpoint to) const;
  void Flood(Endpoint to, std::vector<int>* distances) const;
  void Extend(Endpoint to, size_t most, Route* way, std::vector<Route>* found) const;

  const Fabric& fabric_;
  std::vector<bool> down_;
  std::vector<Edge> edges_;
  std::vector<std::vector<int>> leaving_;    // edges by node, in NextHops's order
  std::vector<size_t> first_endpoint_;       // by node: where its NICs' distances start
  std::vector<std::vector<int>> distances_;  // by endpoint, by node
};

}  // namespace harmonaize

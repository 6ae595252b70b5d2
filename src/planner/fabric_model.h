#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "src/schedule/bounds/capacity_graph.h"
#include "src/schedule/ir/host_placement.h"
#include "src/topology/fabric/fabric.h"
#include "src/topology/fabric/lane.h"

namespace harmonaize {

/// Distribution of the traffic from one host to another over the ways between them.
enum class PathUse {
  kEcmp = 0,  ///< One connection for each rail; routers choose its way by a hash.
  /// Messages are dealt out evenly over the rails and explicit paths. Where there are no explicit
  /// paths each rail is spread over all equal ways.
  kEven,
  kWeighted,  ///< Like kEven, but in proportion to the capacity of each lane's narrowest link.
};
/// Returns "ecmp", "even" or "weighted".
std::string_view PathUseName(PathUse use);

/// A fabric as planners need it: it answers for ways between hosts without a table of all pairs,
/// however many hosts hang at each switch. The ways are those of FabricRouting. Host numbers are
/// places in Fabric::Hosts(); nodes and edges are Fabric's.
///
/// Deterministic: equal fabrics give equal answers everywhere. Immutable. Thread: any.
class FabricModel {
 public:
  /// Requires: ValidateFabric accepts the fabric.
  explicit FabricModel(Fabric fabric);

  const Fabric& fabric() const { return fabric_; }
  int hosts() const { return static_cast<int>(hosts_.size()); }
  const std::string& HostName(int host) const { return NodeOf(host).name; }
  const Node& NodeOf(int host) const {
    return fabric_.nodes[static_cast<size_t>(hosts_[static_cast<size_t>(host)])];
  }
  /// Returns the edge that leaves a host by a NIC; the one that comes in there is that ^ 1.
  int EdgeOut(int host, int nic) const;
  /// Returns the number of the host of this name; -1 if there is none.
  int HostNamed(std::string_view name) const;
  double BytesPerSecond(int edge) const { return rates_[static_cast<size_t>(edge)]; }
  int edges() const { return static_cast<int>(rates_.size()); }
  /// Returns the host's rack. Hosts of one rack have the same number; where the file names no
  /// racks, hosts that hang at the same switches do. Racks are numbered in the order of their first
  /// hosts.
  int RackOf(int host) const { return rack_of_host_[static_cast<size_t>(host)]; }

  /// Hosts that hang at the same switches by equal NICs are of one kind: whatever holds between two
  /// hosts holds between any two others of their kinds. Hosts that forward are alone in theirs.
  int KindOf(int host) const { return kind_of_host_[static_cast<size_t>(host)]; }
  int kinds() const { return kinds_; }

  /// Returns the graph for algorithms: the fabric's nodes, and one edge for all links from one node
  /// to another. Hosts of the placement, and others that do not forward, are hosts; other hosts
  /// that forward are switches.
  CapacityGraph GraphFor(const HostPlacement& placement) const;
  /// Returns the bytes per second that a capacity of 1 stands for in that graph. Capacities are
  /// exact, unless the fabric's rates have so little in common that whole numbers would be too
  /// large.
  double CapacityUnit() const { return unit_; }

  /// Returns the lanes between two hosts: the rails, with what is chosen on each. There is at least
  /// one, and any two hosts of the same kinds have the same ones.
  std::vector<Lane> Lanes(int from, int to, PathUse use) const;
  /// Returns the edges of a lane; for one that ECMP spreads, the first of its ways by NextHops.
  Route RouteOf(int from, int to, const Lane& lane) const;
  /// The edges that all traffic of a lane crosses.
  struct CertainRoute {
    Route edges;
    bool whole = false;  ///< All traffic crosses only these edges.
  };
  CertainRoute CertainRouteOf(int from, int to, const Lane& lane) const;
  /// Returns the lanes, weighted, whose traffic passes through exactly these nodes, both hosts
  /// included. There are none if no explicit path does and ECMP has a choice.
  std::vector<Lane> LanesThrough(int from, int to, const std::vector<int>& nodes) const;

  /// A way by a pair of NICs in three parts: an edge that leaves the sender, any of the shortest
  /// ways from node `start` to node `target`, and an edge to the receiver. -1: the way has no such
  /// part.
  struct Way {
    int first = -1;
    int start = -1;
    int target = -1;  ///< -1: the cable `first` leads straight to the receiver.
    int last = -1;
  };
  Way WayBy(int from, int to, int from_nic, int to_nic) const;
  bool Leads(const Way& way) const;
  /// Returns the edges that leave `node` on the shortest ways to `target`; none if `node` is
  /// `target`.
  std::span<const int> NextHops(int node, int target) const;
  /// Returns the bytes per second that all shortest ways from `node` to `target` carry together, if
  /// each switch divides its traffic by what lies behind each of its links. Infinite at the target.
  double CarriedTo(int node, int target) const;
  /// Returns the part of CarriedTo that goes by one of NextHops.
  double CarriedBy(int edge, int target) const {
    return std::min(BytesPerSecond(edge), CarriedTo(HeadOf(edge), target));
  }
  /// Returns the number of links from `node` to `target`; -1 where no way leads.
  int Distance(int node, int target) const;
  /// Returns all nodes at which ways end.
  const std::vector<int>& targets() const { return targets_; }
  int HeadOf(int edge) const { return edges_[static_cast<size_t>(edge)].to; }
  /// Returns the edge of `hops` that explicit path `path` takes.
  int ChooseExplicit(std::span<const int> hops, int path) const;
  /// Returns the sum of the links' stated latencies, with `unknown` for links without one.
  double LatencyOf(const Route& route, double unknown) const;

 private:
  struct Hops {
    size_t first = 0;
    size_t count = 0;
  };
  /// Returns the node where ways to a NIC end: the switch behind it, or the host itself if it
  /// forwards.
  int PortOf(int host, int nic) const;
  /// Returns the ports of all NICs of a host; equal only for hosts that hang at the same switches.
  std::vector<int> PortsOf(int host) const;
  std::vector<Lane> RailsBetween(int from, int to) const;
  /// A lane with the edges it takes and its CapacityOf.
  struct WeighedLane {
    Lane lane;
    int64_t capacity = 0;
    Route route;
  };
  /// Returns all lanes that take different links.
  std::vector<WeighedLane> AllLanes(int from, int to) const;
  int64_t CapacityOf(const Way& way, const Route& route, int path) const;
  /// Returns whether routers may lay connections on different ways. They may at a node with several
  /// next hops. They may between switches, where an inferred fabric can show several links, or a
  /// whole level of spines, as one.
  bool MayDivide(const Way& way) const;
  bool AlwaysThrough(const Way& way, const std::vector<int>& nodes) const;
  void FindTargets();
  void FindWays(int target);
  void FindKinds();
  void FindRacks();
  void FindUnit();

  Fabric fabric_;
  std::vector<int> hosts_;  // nodes
  std::vector<Edge> edges_;
  std::vector<double> rates_;
  std::vector<int> targets_;
  std::vector<int> target_of_node_;  // in targets_; -1: none
  std::vector<std::vector<int>> leaving_;
  std::vector<int> distances_;   // by target, by node
  std::vector<double> carried_;  // by target, by node: CarriedTo
  std::vector<Hops> hops_;       // by target, by node: in pool_
  std::vector<int> pool_;
  std::vector<int> kind_of_host_;
  std::vector<int> rack_of_host_;
  std::vector<int64_t> capacities_;  // by edge
  int kinds_ = 0;
  double unit_ = 1;
};

}  // namespace harmonaize

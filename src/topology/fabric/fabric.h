#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"

namespace harmonaize {

// The fabric as data: its hosts and switches, and the links that join them. It comes from a file
// (fabric_file.h); fabric_routing.h finds the ways through it. Everything here is a plain value:
// copyable, without locks. Thread: any, while none writes.
//
// Nodes, links, racks and a host's NICs are named by their indices in the vectors below.

enum class NodeKind : int { kHost = 0, kLeaf, kSpine, kCore };
/// Returns "host", "leaf", ...
const char* NodeKindName(NodeKind kind);

/// The end of one explicit path at a host: a device to send from, and the address that others send
/// to. Traffic to the address of path p takes path p, from any sender.
struct PathEndpoint {
  std::string device{};
  std::string address{};  ///< IPv4, in dotted form.
};

/// A host's connection to the fabric; one link leaves it.
struct Nic {
  std::string device{};
  std::string address{};              ///< IPv4. Traffic to it is spread by ECMP.
  std::vector<PathEndpoint> paths{};  ///< There are Fabric::explicit_paths of them.
  int link = -1;
};

struct Node {
  std::string name{};
  NodeKind kind = NodeKind::kHost;
  int rack = -1;            ///< Index in Fabric::racks; -1: in none.
  bool forwards = true;     ///< Whether others' traffic passes through. Always true for switches.
  std::vector<Nic> nics{};  ///< Only hosts have NICs.
};

struct LinkEnd {
  int node = -1;
  int nic = -1;  ///< -1 at a switch.
};

/// A cable; its rate is stated for each direction.
struct Link {
  std::string name{};
  std::array<LinkEnd, 2> ends;
  /// [0]: from ends[0] to ends[1]; [1]: back.
  std::array<double, 2> bytes_per_second{};
  double latency_seconds = 0;  ///< One way; 0: not known.
};

/// One direction of a link. Edge e is direction e % 2 of link e / 2.
struct Edge {
  int from = -1;
  int to = -1;
  double bytes_per_second = 0;
  double latency_seconds = 0;
};

/// Nodes that an explicit path prefers where several ways are equally short; see FabricRouting.
struct PathPreference {
  std::string name{};
  std::vector<int> through{};  ///< Nodes that forward.
};

/// A host's NIC as one end of traffic.
struct Endpoint {
  int host = -1;
  int nic = 0;
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

struct Fabric {
  std::string name;
  std::vector<Node> nodes;
  std::vector<Link> links;
  std::vector<std::string> racks;
  /// Number of paths that can be chosen by address; 0: ECMP decides alone.
  int explicit_paths = 0;
  /// Preference of path p, where the file states it; empty: path p takes the p-th of the equal
  /// ways.
  std::vector<PathPreference> preferences;

  /// Returns the index; -1 where there is none.
  int FindNode(std::string_view node_name) const;
  int FindLink(std::string_view link_name) const;
  /// Returns the nodes that are hosts, in order.
  std::vector<int> Hosts() const;
  std::vector<int> HostsOfRack(int rack) const;
  /// Returns every NIC of every host, in order.
  std::vector<Endpoint> Endpoints() const;
  /// Returns both directions of all links; Edges()[e] is edge e.
  std::vector<Edge> Edges() const;
  Edge EdgeAt(int edge) const;
  const Nic& NicAt(Endpoint endpoint) const;
  /// Returns "host0", or "host0:nic1" for hosts with several NICs.
  std::string EndpointName(Endpoint endpoint) const;
};

/// Returns ok if all that the comments above say holds, names are unique and well formed, every
/// host reaches every other host by at least one pair of NICs, and devices and addresses are unique
/// where they must be. Errors: kInvalidArgument, which names what is wrong.
Status ValidateFabric(const Fabric& fabric);

/// Returns whether `name` can name a node, a link or a fabric: letters, digits, '_' and '-', 32 at
/// most.
bool IsFabricName(std::string_view name);

}  // namespace harmonaize

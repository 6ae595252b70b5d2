#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "src/topology/fabric/fabric_file.h"

namespace harmonaize::fabric {

/// Changes of a laboratory since it came up.
struct Disturbances {
  std::vector<bool> down;  ///< By link.
  /// Whether routers know of it: ECMP then avoids links that are down.
  bool rerouted = true;
  /// Bytes a second by edge, where they differ from the fabric's.
  std::map<int, double> rates;
};

/// Seconds of its rate that a link's token bucket holds: enough for a stable rate from 50 Mbit/s to
/// 1 Gbit/s on a two-core machine (docs/laboratory.md).
inline constexpr double kBucketSeconds = 2e-3;

/// Makes batches of ip(8) and tc(8) that turn network namespaces into a fabric. It only makes text.
///
/// Hosts and switches are namespaces; a link is a pair of veth devices, each shaped by a token
/// bucket as it sends. Devices of links carry no addresses but the hosts' own: every next hop is
/// the same link-local address, which a permanent neighbour entry of each device maps to the other
/// end. Explicit path p of a NIC is a device of its own at the host, one end of a veth pair that
/// leads nowhere, and holds the path's address; routers send what is addressed to it along path p,
/// and hosts send to such an address from their own address of the same path, so that answers take
/// path p as well. A source address decides by which NIC a host sends.
class NetworkPlan {
 public:
  /// Borrows `file`.
  NetworkPlan(const std::string& laboratory, const FabricFile& file, Disturbances disturbances);

  /// Returns the batch that makes the namespaces and the links (for ip).
  std::string Create() const;
  /// Returns the batch that removes the given namespaces, with everything in them (for ip).
  static std::string Delete(const std::vector<std::string>& namespaces);
  /// Returns the batch that brings the node's devices up and gives them addresses (for ip -n).
  std::string Devices(int node) const;
  /// Returns the batch that sets the node's neighbours and routes; it may be run again (for ip -n).
  std::string Routes(int node) const;
  /// Returns the batch that maps source addresses to NICs; to be run once (for ip -n). "" for most
  /// nodes.
  std::string Rules(int node) const;
  /// Returns the rates of the links as the node sends (for tc -n).
  std::string Shaping(int node) const;
  /// Returns kernel parameters of the node's namespace, and their values.
  std::vector<std::pair<std::string, std::string>> KernelParameters(int node) const;

  /// Returns the device at one end of a link, within that end's namespace.
  std::string DeviceName(int link, int end) const;

 private:
  struct Port {
    int link;
    int end;
  };
  std::vector<Port> PortsOf(int node) const;
  double RateOf(int edge) const;
  bool IsDown(int link) const;
  std::string Via(int edge) const;
  std::string RouterRoute(int node, Endpoint to, int path) const;
  std::string HostRoute(int node, Endpoint to, int path) const;

  std::string laboratory_;
  const FabricFile& file_;
  const Fabric& fabric_;
  Disturbances disturbances_;
};

}  // namespace harmonaize::fabric

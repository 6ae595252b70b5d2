#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/transport/address.h"
#include "src/transport/tcp/wire.h"

namespace harmonaize::transport {

/// Connections of a TCP rail where routers choose ways by a hash of addresses and ports. With eight
/// connections and two equal ways, all fall on one way in less than one case of a hundred.
inline constexpr int kSpreadConnections = 8;
/// Returns the connections of each of `rails` rails: kSpreadConnections within kMaxConnections.
int SpreadConnections(size_t rails);

/// One way out of this host.
struct RailOptions {
  enum class Kind {
    kTcp,  ///< Our own connections, whose ends prove the cluster key.
    kUcx,  ///< A UCX worker: for RDMA. See `ucx_transports` for what it trusts.
  };

  Kind kind = Kind::kTcp;
  /// kTcp: the network device, for messages to people. kUcx: UCX's name, such as "mlx5_0:1".
  std::string device;
  /// kTcp: the local address to listen at and to connect from. Its port is for listening; 0 lets
  /// the kernel choose.
  NetworkAddress address;
  int prefix_bits = 0;  ///< kTcp: prefix length of the device's network.
  /// kTcp: rate of the device's link; 0: not known. See TransportOptions::congestion_control.
  double bytes_per_second = 0;
  /// IP's traffic class (DSCP and ECN bits) for kTcp, InfiniBand's for kUcx; negative: default.
  int traffic_class = -1;
  /// kTcp: the port that this side connects from, for networks that choose routes by it; 0: any.
  /// The side that opens the link connects.
  uint16_t source_port = 0;
  /// kTcp: number of connections if this side opens the link. Messages take those with the least
  /// backlog (channel_bundle.h). At least 1; with `source_port` just 1. All rails of a daemon
  /// together have at most kMaxConnections.
  int connections = 1;
  /// kUcx: InfiniBand's service level, and the number of paths that messages are spread over;
  /// negative: UCX's choice.
  int service_level = -1;
  int path_count = -1;
  /// kUcx: the value of UCX_TLS. "ib" is for InfiniBand and RoCE cards. Anything with "tcp" opens a
  /// port at which UCX trusts every peer: only for networks that no tenant can reach.
  std::string ucx_transports = "ib";
};

/// Returns "eth0 10.0.0.1" or "mlx5_0:1".
std::string RailName(const RailOptions& rail);

/// Returns the default rails of a daemon that listens at `address`. On loopback: just that address.
/// Else, where RDMA cards have an active port and UCX is installed: those ports. Else: each device
/// that is up, with its first address of the family of `address`.
std::vector<RailOptions> DiscoverRails(const NetworkAddress& address);

/// Pairs a rail of the initiator with one of the acceptor.
struct RailPair {
  uint8_t initiator = 0;
  uint8_t acceptor = 0;

  bool operator==(const RailPair&) const = default;
};

/// The initiator's announcement of a connected pair, as it is on the wire. After it comes, for each
/// connection, the number in its greeting.
struct RailReady {
  RailPair pair;
  uint8_t connections = 0;  ///< 0: the rail needs none, as UCX's.
  uint8_t astray = 0;       ///< 1: its own way could not be connected, so it takes another.
};
static_assert(sizeof(RailReady) == 4);

/// Pairs each rail of the initiator with an unused rail of the acceptor of its kind: one in the
/// same network if there is, else the first.
std::vector<RailPair> PairRails(const std::vector<RailAnnouncement>& initiator,
                                const std::vector<RailAnnouncement>& acceptor);

}  // namespace harmonaize::transport

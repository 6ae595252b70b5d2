#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/transport/address.h"
#include "src/transport/tcp/wire.h"

namespace harmonaize::transport {

/// What a TCP rail needs where routers choose ways by a hash of addresses and ports. Of eight draws
/// from two equal ways all fall on one in less than one case of a hundred.
inline constexpr int kSpreadConnections = 8;
/// The same for each of `rails` rails, within kMaxConnections.
int SpreadConnections(size_t rails);

/// One way out of this host.
struct RailOptions {
  enum class Kind {
    kTcp,  ///< Our own connections, whose ends prove the cluster key.
    kUcx,  ///< A UCX worker: for RDMA. See `ucx_transports` for what it trusts.
  };

  Kind kind = Kind::kTcp;
  /// kTcp: the network device, shown in messages. kUcx: UCX's name, such as "mlx5_0:1".
  std::string device;
  /// kTcp: the local address that is listened at and connected from; its port is listened at, 0
  /// lets the kernel choose.
  NetworkAddress address;
  int prefix_bits = 0;  ///< kTcp: of the device's network.
  /// kTcp: what the device's link carries; 0: not known. See TransportOptions::congestion_control.
  double bytes_per_second = 0;
  /// IP's traffic class (DSCP and ECN bits) for kTcp, InfiniBand's for kUcx; negative: default.
  int traffic_class = -1;
  /// kTcp: the port that this side connects from, where routes are chosen by it; 0: any. The side
  /// that opens the link connects.
  uint16_t source_port = 0;
  /// kTcp: of how many connections it is made when this side opens the link; messages are dealt to
  /// those that have least to do (channel_bundle.h). At least 1; with `source_port` just 1. All
  /// rails of a daemon together have at most kMaxConnections.
  int connections = 1;
  /// kUcx: InfiniBand's service level, and how many paths messages are spread over; negative:
  /// UCX's choice.
  int service_level = -1;
  int path_count = -1;
  /// kUcx: as UCX_TLS. "ib" is what InfiniBand and RoCE cards have. Anything with "tcp" opens a
  /// port at which UCX trusts whoever connects: only for networks that no tenant can reach.
  std::string ucx_transports = "ib";
};

/// "eth0 10.0.0.1" or "mlx5_0:1"
std::string RailName(const RailOptions& rail);

/// The rails that a daemon which listens at `address` has by default: on loopback just that
/// address; else, where RDMA cards have an active port and UCX is installed, those ports; else each
/// device that is up, with its first address of the family of `address`.
std::vector<RailOptions> DiscoverRails(const NetworkAddress& address);

/// Which rail of one daemon talks to which rail of another.
struct RailPair {
  uint8_t initiator = 0;
  uint8_t acceptor = 0;

  bool operator==(const RailPair&) const = default;
};

/// What the initiator says of a pair once it is connected; behind it, for each connection, the
/// number that its greeting has. As it lies on the wire.
struct RailReady {
  RailPair pair;
  uint8_t connections = 0;  ///< 0: of a rail that needs none, as UCX's.
  uint8_t astray = 0;       ///< 1: its own way could not be connected, so it goes by another.
};
static_assert(sizeof(RailReady) == 4);

/// Each rail of the initiator with one of the acceptor's of its kind that no other has: one in the
/// same network if there is, else the first.
std::vector<RailPair> PairRails(const std::vector<RailAnnouncement>& initiator,
                                const std::vector<RailAnnouncement>& acceptor);

}  // namespace harmonaize::transport

#pragma once

namespace harmonaize {

/// One way from a host to another that a transport can be told to take: a pair of NICs, and an
/// explicit path between them.
struct Lane {
  int from_nic = 0;
  int to_nic = 0;
  int path = -1;   ///< An explicit path of the fabric; -1: the NIC's own address (ECMP).
  int weight = 1;  ///< Weight: its share of the traffic is this by the sum over all lanes.
  /// For a lane without an explicit path: whether it is spread over several connections, which
  /// routers lay on all equal ways and the transport balances; else it has one, on the way of its
  /// hash.
  bool spread = false;

  friend bool operator==(const Lane&, const Lane&) = default;
};

}  // namespace harmonaize

#pragma once

namespace harmonaize {

/// One way from a host to another that a transport can be told to take: a pair of NICs, and an
/// explicit path between them.
struct Lane {
  int from_nic = 0;
  int to_nic = 0;
  int path = -1;   ///< An explicit path of the fabric; -1: the NIC's own address (ECMP).
  int weight = 1;  ///< Of the traffic, this by the sum over all lanes that share it.
  /// Without an explicit path: over several connections, which routers lay on all equal ways and
  /// the transport balances; else over one, wherever its hash leads.
  bool spread = false;

  friend bool operator==(const Lane&, const Lane&) = default;
};

}  // namespace harmonaize

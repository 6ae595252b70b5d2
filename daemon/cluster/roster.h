#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/cluster/this_daemon.h"
#include "src/planner/fabric_model.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

/// Where the ranks of a communicator that spans hosts are. Hosts are numbered by their place here.
struct Roster {
  uint64_t key = 0;                      ///< The communicator's key, the same at all hosts.
  transport::PeerId home = kThisDaemon;  ///< The daemon that formed it.
  int self = -1;                         ///< This host; -1: the home, without ranks.
  std::vector<int> host_of_rank = {};
  std::vector<std::string> addresses = {};  ///< By host: where its daemon is reached.
  std::vector<int> fabric_hosts = {};       ///< By host: its number in the fabric.
  /// By host: its daemon, which is kThisDaemon here; none while it was not needed.
  std::vector<std::optional<transport::PeerId>> peers = {};
  uint64_t fabric = 0;  ///< FabricDigest.

  int hosts() const { return static_cast<int>(addresses.size()); }
  bool IsLocal(int rank) const { return host_of_rank[static_cast<size_t>(rank)] == self; }
  /// Returns the largest number such that every run of as many ranks, from rank 0 on, is at one
  /// host.
  int RanksTogether() const;
  /// Returns "rank 3" or "ranks 2, 3", for the ranks of a host.
  std::string RanksOf(int host) const;
  /// Returns the host of a peer; -1 if the peer has none.
  int HostOf(transport::PeerId peer) const;
};

}  // namespace harmonaize::daemon

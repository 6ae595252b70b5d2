#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "src/base/status.h"
#include "src/topology/fabric/fabric.h"
#include "src/topology/fabric/lane.h"
#include "src/transport/link/rail.h"

namespace harmonaize {

/// Tells which rails the transports of a fabric's hosts have, and which of them serves a pair of
/// NICs. Host numbers are places in Fabric::Hosts(), as in FabricModel. Immutable. Thread: any.
///
/// Rails are numbered alike on all hosts: first those of the NICs' own addresses, then those of
/// explicit path 0, of path 1, and so on. Each of these has as many as the host with the most NICs
/// has; a host with fewer lets each NIC serve several. A host that forwards is reached by all its
/// NICs alike, and so has one NIC with rails. Rail i of a host talks to rail i of another, by TCP.
/// Where there are no explicit paths, each rail has several connections, for routers to lay on
/// several ways.
class FabricRails {
 public:
  /// Requires: the fabric is valid (ValidateFabric) and has addresses, as one from a file has.
  /// Where there would be more rails than transport::kMaxRails, the last paths have none.
  explicit FabricRails(const Fabric& fabric);

  int hosts() const { return static_cast<int>(nics_.size()); }
  /// Returns the number of rails of each host.
  size_t rails() const { return width_ * (1 + paths_); }
  /// Returns how many of these, the first ones, belong to no explicit path.
  size_t plain_rails() const { return width_; }

  /// Returns TransportOptions::rails for a host, whose transport must listen at the first rail's
  /// address. Errors: kInvalidArgument for an invalid address.
  Result<std::vector<transport::RailOptions>> RailsOf(int host) const;

  /// Returns the rail from a NIC to a NIC by an explicit path; `path` -1: by the NICs' own
  /// addresses, so that ECMP chooses. Rails are counted as Transport::PostSend does while
  /// PeerInfo::rails says that all are there. -1 if no rail serves exactly this.
  int RailFor(int from_host, int to_host, int from_nic, int to_nic, int path) const;
  /// Returns the lane that a rail between two hosts is; none where the fabric has no such rail or
  /// host.
  std::optional<Lane> LaneOf(int from_host, int to_host, size_t rail) const;

 private:
  double RateOf(const Nic& nic) const { return link_rates_[static_cast<size_t>(nic.link)]; }
  size_t NicsOf(int host) const { return nics_[static_cast<size_t>(host)].size(); }

  std::vector<std::vector<Nic>> nics_;  // by host: those that have rails
  std::vector<double> link_rates_;      // by link: bytes a second, of the slower way
  size_t width_ = 1;                    // rails of each path
  size_t paths_ = 0;
};

}  // namespace harmonaize

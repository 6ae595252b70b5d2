#pragma once

#include <vector>

#include "src/base/status.h"

namespace harmonaize {

/// Which ranks are on which host. The hosts of a communicator are numbered anyhow; here they have
/// positions 0 to hosts()-1, in the order of their numbers. A plain value, safe to read from
/// several threads.
class HostPlacement {
 public:
  /// host_of_rank[r] >= 0 is the host of rank r.
  explicit HostPlacement(std::vector<int> host_of_rank);

  int ranks() const { return static_cast<int>(host_of_rank_.size()); }
  int hosts() const { return static_cast<int>(hosts_.size()); }
  const std::vector<int>& host_of_rank() const { return host_of_rank_; }
  /// The number of the host at a position.
  int HostAt(int position) const { return hosts_[static_cast<size_t>(position)]; }
  /// -1 if there is no such host.
  int PositionOfHost(int host) const;
  int PositionOfRank(int rank) const { return position_of_rank_[static_cast<size_t>(rank)]; }
  /// In ascending order; at least one.
  const std::vector<int>& RanksAt(int position) const {
    return ranks_[static_cast<size_t>(position)];
  }

  /// The positions of `order`, which has to name every host once; an empty one stands for the order
  /// of the host numbers. The error names the host that is missing, doubled or unknown.
  Result<std::vector<int>> PositionsOf(const std::vector<int>& order) const;

  /// The same for groups of hosts, none of them empty, which together name every host once.
  Result<std::vector<std::vector<int>>> PositionsOfGroups(
      const std::vector<std::vector<int>>& groups) const;

 private:
  std::vector<int> host_of_rank_;
  std::vector<int> hosts_;               // by position, ascending
  std::vector<int> position_of_rank_;    // by rank
  std::vector<std::vector<int>> ranks_;  // by position
};

}  // namespace harmonaize

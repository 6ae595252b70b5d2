#pragma once

#include <vector>

#include "src/base/status.h"

namespace harmonaize {

/// Maps ranks to hosts. The hosts of a communicator may have any numbers; here they have positions
/// 0 to hosts()-1, in the order of their numbers. A plain value. Thread: any.
class HostPlacement {
 public:
  /// host_of_rank[r] >= 0 is the host of rank r.
  explicit HostPlacement(std::vector<int> host_of_rank);

  int ranks() const { return static_cast<int>(host_of_rank_.size()); }
  int hosts() const { return static_cast<int>(hosts_.size()); }
  const std::vector<int>& host_of_rank() const { return host_of_rank_; }
  /// Returns the number of the host at a position.
  int HostAt(int position) const { return hosts_[static_cast<size_t>(position)]; }
  /// Returns the position of a host; -1 if there is no such host.
  int PositionOfHost(int host) const;
  int PositionOfRank(int rank) const { return position_of_rank_[static_cast<size_t>(rank)]; }
  /// Returns the ranks of a host in ascending order; at least one.
  const std::vector<int>& RanksAt(int position) const {
    return ranks_[static_cast<size_t>(position)];
  }

  /// Returns the positions of `order`, which must name every host once; an empty one stands for the
  /// order of the host numbers. The error names the host that is missing, doubled or unknown.
  Result<std::vector<int>> PositionsOf(const std::vector<int>& order) const;

  /// Returns the positions of groups of hosts, none of them empty, which together name every host
  /// once.
  Result<std::vector<std::vector<int>>> PositionsOfGroups(
      const std::vector<std::vector<int>>& groups) const;

 private:
  std::vector<int> host_of_rank_;
  std::vector<int> hosts_;               // by position, ascending
  std::vector<int> position_of_rank_;    // by rank
  std::vector<std::vector<int>> ranks_;  // by position
};

}  // namespace harmonaize

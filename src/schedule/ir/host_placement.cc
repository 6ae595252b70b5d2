#include "src/schedule/ir/host_placement.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace harmonaize {

HostPlacement::HostPlacement(std::vector<int> host_of_rank)
    : host_of_rank_(std::move(host_of_rank)), hosts_(host_of_rank_) {
  std::sort(hosts_.begin(), hosts_.end());
  hosts_.erase(std::unique(hosts_.begin(), hosts_.end()), hosts_.end());
  ranks_.resize(hosts_.size());
  for (int rank = 0; rank < ranks(); ++rank) {
    const int position = PositionOfHost(host_of_rank_[static_cast<size_t>(rank)]);
    position_of_rank_.push_back(position);
    ranks_[static_cast<size_t>(position)].push_back(rank);
  }
}

int HostPlacement::PositionOfHost(int host) const {
  const auto found = std::lower_bound(hosts_.begin(), hosts_.end(), host);
  return found == hosts_.end() || *found != host ? -1 : static_cast<int>(found - hosts_.begin());
}

Result<std::vector<int>> HostPlacement::PositionsOf(const std::vector<int>& order) const {
  std::vector<int> positions(hosts_.size());
  if (order.empty()) {
    std::iota(positions.begin(), positions.end(), 0);
    return positions;
  }
  std::vector<bool> seen(hosts_.size(), false);
  positions.clear();
  for (const int host : order) {
    const int position = PositionOfHost(host);
    if (position < 0) {
      return InvalidArgument("the order of hosts names host {}, which has no rank", host);
    }
    if (seen[static_cast<size_t>(position)]) {
      return InvalidArgument("the order of hosts names host {} twice", host);
    }
    seen[static_cast<size_t>(position)] = true;
    positions.push_back(position);
  }
  const auto missing = std::find(seen.begin(), seen.end(), false);
  if (missing != seen.end()) {
    return InvalidArgument("the order of hosts lacks host {}",
                           HostAt(static_cast<int>(missing - seen.begin())));
  }
  return positions;
}

Result<std::vector<std::vector<int>>> HostPlacement::PositionsOfGroups(
    const std::vector<std::vector<int>>& groups) const {
  std::vector<int> all;
  for (const std::vector<int>& group : groups) {
    if (group.empty()) return InvalidArgument("a group of hosts is empty");
    all.insert(all.end(), group.begin(), group.end());
  }
  if (all.empty()) return InvalidArgument("no groups of hosts are given");
  HZ_ASSIGN_OR_RETURN(const std::vector<int> positions, PositionsOf(all));
  std::vector<std::vector<int>> result;
  auto next = positions.begin();
  for (const std::vector<int>& group : groups) {
    const auto end = next + static_cast<std::ptrdiff_t>(group.size());
    result.emplace_back(next, end);
    next = end;
  }
  return result;
}

}  // namespace harmonaize

#pragma once

#include <string>
#include <vector>

#include "src/planner/fabric_model.h"
#include "src/schedule/ir/outline.h"

namespace harmonaize {

/// Hosts in the order in which an algorithm goes along them.
struct HostOrder {
  std::string name = {};  ///< "given", "by rack", "searched", "operator's".
  std::vector<int> hosts = {};
};

/// Returns the hosts by the first rank of each.
HostOrder GivenOrder(const Problem& problem);

/// Returns the hosts rack by rack, in the order of the racks' first ranks, and as given within a
/// rack.
HostOrder OrderByRack(const FabricModel& model, const Problem& problem);

/// Returns the ring for which the busiest link carries least, found by swapping hosts of the order
/// by rack as long as that helps; the first of equals. The time grows with the fourth power of the
/// number of hosts.
HostOrder SearchedOrder(const FabricModel& model, const Problem& problem);

/// Returns the hosts of each rack; none if there is one rack, or no rack has two hosts.
std::vector<std::vector<int>> GroupsByRack(const FabricModel& model, const Problem& problem);

}  // namespace harmonaize

#pragma once

#include <string>
#include <vector>

#include "src/topology/fabric/fabric.h"

namespace harmonaize {

/// Returns the hosts joined to the same switches, by name; a host without a switch is alone.
/// Sorted.
std::vector<std::vector<std::string>> RacksOf(const Fabric& fabric);
/// Returns "{host0, host1} {host2}".
std::string RacksText(const std::vector<std::vector<std::string>>& racks);

/// Returns the hosts that links join directly, "a b" with a < b; sorted.
std::vector<std::string> HostPairs(const Fabric& fabric);

/// Rates of the links between a group of hosts, with the switches that serve only them, and the
/// rest: from the group, and to it. In bytes a second.
struct CutRate {
  double out = 0;
  double in = 0;
};
CutRate CutAround(const Fabric& fabric, const std::vector<std::string>& hosts);

}  // namespace harmonaize

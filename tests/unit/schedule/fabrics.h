#pragma once

#include <vector>

#include "src/schedule/bounds/capacity_graph.h"

namespace harmonaize {

// Fabrics for the tests: hosts 0, 1, 2, ... and the links and switches that join them.

CapacityGraph OneSwitch(const std::vector<int64_t>& capacity_of_host);

/// Returns a fabric with a leaf switch for each rack with that many hosts, each leaf joined to each
/// spine.
CapacityGraph Racks(const std::vector<int>& hosts_of_rack, int64_t host_capacity, int spines,
                    int64_t uplink_capacity);

/// Returns hosts joined in a circle, without a switch.
CapacityGraph HostRing(int hosts, int64_t capacity);

/// Returns a fabric in which every host has an interface to each rail's switch; rails are not
/// joined.
CapacityGraph Rails(int hosts, const std::vector<int64_t>& capacity_of_rail);

/// Returns a random connected fabric of hosts and switches; links are equally fast in both
/// directions.
CapacityGraph RandomFabric(int hosts, int switches, int64_t most_capacity, unsigned seed);

}  // namespace harmonaize

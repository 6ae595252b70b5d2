#pragma once

#include <vector>

#include "src/schedule/bounds/capacity_graph.h"

namespace harmonaize {

// Fabrics for the tests: hosts 0, 1, 2, ... and what joins them.

CapacityGraph OneSwitch(const std::vector<int64_t>& capacity_of_host);

/// A leaf switch for each rack with that many hosts, each leaf joined to each spine.
CapacityGraph Racks(const std::vector<int>& hosts_of_rack, int64_t host_capacity, int spines,
                    int64_t uplink_capacity);

/// Hosts joined in a circle, without a switch.
CapacityGraph HostRing(int hosts, int64_t capacity);

/// Every host has an interface to each rail's switch; rails are not joined.
CapacityGraph Rails(int hosts, const std::vector<int64_t>& capacity_of_rail);

/// A connected fabric of hosts and switches drawn by lot, links equally fast in both directions.
CapacityGraph RandomFabric(int hosts, int switches, int64_t most_capacity, unsigned seed);

}  // namespace harmonaize

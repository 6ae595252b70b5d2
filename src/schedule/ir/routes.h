#pragma once

#include <map>
#include <utility>
#include <vector>

namespace harmonaize {

/// A route through the fabric from host to host: indices of CapacityGraph::edges, in the order of
/// travel.
using Route = std::vector<int>;

/// The routes between two hosts, by sending and receiving host number, and by Step::path.
using RouteTable = std::map<std::pair<int, int>, std::vector<Route>>;

}  // namespace harmonaize

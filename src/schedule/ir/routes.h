#pragma once

#include <map>
#include <utility>
#include <vector>

namespace harmonaize {

/// A way through the fabric from host to host: indices of CapacityGraph::edges, in the order of
/// travel.
using Route = std::vector<int>;

/// By sending and receiving host number: the routes between them, by Step::path.
using RouteTable = std::map<std::pair<int, int>, std::vector<Route>>;

}  // namespace harmonaize

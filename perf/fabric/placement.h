#pragma once

#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/topology/fabric/fabric.h"

namespace harmonaize::fabric {

/// Returns the host of each rank, by rank. `hosts` lists hosts "a", "b", which take `ranks` ranks
/// in turn, or hosts with their numbers of ranks "a:2", "b:2", whose ranks follow each other;
/// `ranks` may then be 0. Empty: all hosts of the fabric in turn. Errors: kInvalidArgument when the
/// numbers do not fit.
Result<std::vector<int>> PlaceRanks(const Fabric& fabric, const std::vector<std::string>& hosts,
                                    int ranks);

}  // namespace harmonaize::fabric

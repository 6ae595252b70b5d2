#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/planner/planner.h"

namespace harmonaize {

/// Returns the names of the shipped fabrics.
const std::vector<std::string>& ShippedFabrics();

/// Return a shipped fabric by its name, or the fabric of a text; a test that cannot read it fails.
FabricModel ShippedFabric(const std::string& name);
FabricModel FabricOf(const std::string& text);

/// Returns a problem with `ranks` ranks on each host of a model, host by host.
Problem ProblemOn(const FabricModel& model, Collective collective, int ranks = 1);

/// Returns a problem on hosts of two-racks numbered across the racks: host0, host2, host1, host3.
Problem AcrossTheRacks(const FabricModel& two_racks);

}  // namespace harmonaize

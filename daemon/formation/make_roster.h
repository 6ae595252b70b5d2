#pragma once

#include <vector>

#include "daemon/cluster/roster.h"
#include "daemon/formation/formation.h"

namespace harmonaize::daemon {

class Cluster;
class Fabrics;

/// Returns the roster of a communicator that forms at this daemon, with a new key. `ranks` is by
/// rank. Thread: engine.
Roster MakeRoster(const std::vector<Applicant>& ranks, const Cluster& cluster, Fabrics& fabrics);

}  // namespace harmonaize::daemon

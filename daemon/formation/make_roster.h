#pragma once

#include <vector>

#include "daemon/cluster/roster.h"
#include "daemon/formation/formation.h"

namespace harmonaize::daemon {

class Cluster;
class Fabrics;

/// Makes the roster of a communicator that forms at this daemon, with a key of its own. `ranks` by
/// rank. Thread: engine.
Roster MakeRoster(const std::vector<Applicant>& ranks, const Cluster& cluster, Fabrics& fabrics);

}  // namespace harmonaize::daemon

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "daemon/cluster/cluster.h"
#include "daemon/config/config.h"
#include "src/base/status.h"
#include "src/topology/inference/measurements.h"

namespace harmonaize::daemon {

/// What this host shows to a probe: the NICs of its fabric file's host where it has one; the
/// cluster's address alone where that is a loopback address; else each device that is up and has
/// an IPv4 address, with its first one. Left out are devices that lead nowhere by themselves: whose
/// other end is on this host, and those on top of another one that is there.
/// Errors: kSystemError; kInvalidUsage where there is none.
Result<std::vector<ProbedNic>> NicsToProbe(const Cluster& cluster);

/// cluster.host, else the machine's name, made to fit.
std::string HostNameToProbe(const ClusterConfig& config);

/// `text` up to its first dot, as IsFabricName wants it; "host" where nothing is left.
std::string FitFabricName(std::string_view text);

}  // namespace harmonaize::daemon

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "daemon/cluster/cluster.h"
#include "daemon/config/config.h"
#include "src/base/status.h"
#include "src/topology/inference/measurements.h"

namespace harmonaize::daemon {

/// Returns the NICs that this host shows to a probe. With a fabric file these are the NICs of its
/// host there. If the cluster's address is a loopback address it is that alone. Else it is each
/// device that is up and has an IPv4 address, with its first one. Left out are devices that lead
/// nowhere by themselves: those whose other end is on this host, and those on top of another one in
/// the list. Returns kSystemError, or kInvalidUsage if there is none.
Result<std::vector<ProbedNic>> NicsToProbe(const Cluster& cluster);

/// Returns cluster.host, else the machine's name, made to fit.
std::string HostNameToProbe(const ClusterConfig& config);

/// Returns `text` up to its first dot, as IsFabricName wants it; "host" if nothing is left.
std::string FitFabricName(std::string_view text);

}  // namespace harmonaize::daemon

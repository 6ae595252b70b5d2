#pragma once

#include <cstdint>

#include <nlohmann/json_fwd.hpp>

#include "daemon/reports/report_sources.h"

namespace harmonaize::daemon {

// The parts of a status document that are about other hosts; for the provider alone, since they
// hold addresses.

/// What the transport has counted.
nlohmann::json TransportStatus(const Cluster& cluster);
/// Where this daemon stands in its cluster: its links, this host's NICs, and, where they are known,
/// the fabric's links and the controller. The engine has a cluster.
nlohmann::json ClusterStatus(const ReportSources& sources, uint64_t now_ns);

}  // namespace harmonaize::daemon

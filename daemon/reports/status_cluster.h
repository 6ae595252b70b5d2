#pragma once

#include <cstdint>

#include <nlohmann/json_fwd.hpp>

#include "daemon/reports/report_sources.h"

namespace harmonaize::daemon {

// The parts of a status document that are about other hosts; for the provider alone, since they
// hold addresses.

/// Returns what the transport has counted.
nlohmann::json TransportStatus(const Cluster& cluster);
/// Describes this daemon in its cluster: its links, this host's NICs, and, if they are known, the
/// fabric's links and the controller. Requires: the daemon has a cluster.
nlohmann::json ClusterStatus(const ReportSources& sources, uint64_t now_ns);

}  // namespace harmonaize::daemon

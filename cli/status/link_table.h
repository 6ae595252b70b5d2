#pragma once

#include <string>
#include <string_view>

#include "src/base/status.h"

namespace harmonaize {

/// Shows the rails of a daemon to others, with their traffic between two status documents that lie
/// `seconds` apart:
///
///     {"cluster": {"links": [{"peer", "rails": [{"name", "connections", "sent_bytes",
///       "received_bytes", "sent_packets", "resent_packets", "busy_seconds",
///       "round_trip_seconds", "least_round_trip_seconds"}]}],
///       "fabric_links": [{"from", "to", "stated_bytes_per_second", "planned_bytes_per_second",
///         "measured_bytes_per_second", "full", "confidence", "age_seconds"}]}}
///
/// Below them it shows the NICs of this host (nic_table.h), the links of the fabric, if the daemon
/// is a home that knows any, and a controller's data, if there is one (controller_table.h). Missing
/// fields are shown as "-". Errors: kRemoteError when either is no JSON object; kUnavailable, with
/// the way out, where the document has no links, as a tenant's.
Result<std::string> LinkTable(std::string_view before, std::string_view after, double seconds);

}  // namespace harmonaize

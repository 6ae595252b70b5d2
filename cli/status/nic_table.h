#pragma once

#include <string>

#include "cli/json_view.h"

namespace harmonaize {

/// Shows the counts of this host's NICs and RDMA ports between two status documents that lie
/// `seconds` apart, of all traffic:
///
///     {"cluster": {"nics": [{"device", "sent_bytes", "received_bytes", "send_drops",
///       "receive_drops", "errors", "queue": {"kind", "queued_bytes", "drops"}}],
///       "rdma_ports": [{"device", "port", "sent_bytes", "received_bytes", "marked_packets",
///         "handled_congestion_notifications", "out_of_sequence_packets"}]}}
///
/// Missing fields are shown as "-"; adds nothing if there are no NICs or ports.
void PrintNics(const Json& before, const Json& after, double seconds, std::string* text);

}  // namespace harmonaize

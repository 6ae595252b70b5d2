#pragma once

#include <string>

#include "cli/json_view.h"

namespace harmonaize {

/// What this host's NICs and RDMA ports have counted between two status documents that lie
/// `seconds` apart, whoever's traffic it was:
///
///     {"cluster": {"nics": [{"device", "sent_bytes", "received_bytes", "send_drops",
///       "receive_drops", "errors", "queue": {"kind", "queued_bytes", "drops"}}],
///       "rdma_ports": [{"device", "port", "sent_bytes", "received_bytes", "marked_packets",
///         "handled_congestion_notifications", "out_of_sequence_packets"}]}}
///
/// What is missing is shown as "-"; adds nothing where there is none.
void PrintNics(const Json& before, const Json& after, double seconds, std::string* text);

}  // namespace harmonaize

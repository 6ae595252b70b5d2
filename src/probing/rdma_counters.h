#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace harmonaize {

/// Counters of one port of an RDMA device since the device came up. nullopt: this device does not
/// count that, or its driver has another name for it (these are the names of mlx4 and mlx5).
struct RdmaCounters {
  std::string device;  ///< "mlx5_0"
  int port = 1;

  /// Bytes. Over Ethernet (RoCE) those of RDMA alone; the network device counts the others.
  std::optional<uint64_t> sent_bytes;
  std::optional<uint64_t> received_bytes;
  /// Ticks in which there was something to send but nothing was sent, because credits or a turn
  /// were missing. The length of a tick depends on the device: compare a port only with itself.
  std::optional<uint64_t> send_wait_ticks;
  /// RoCE: packets that arrived with the mark (ECN) of a switch whose queue was long.
  std::optional<uint64_t> marked_packets;
  /// RoCE: notifications of congestion, sent in answer to marked packets, and obeyed as a sender.
  std::optional<uint64_t> sent_congestion_notifications;
  std::optional<uint64_t> handled_congestion_notifications;
  /// Packets that arrived out of order.
  std::optional<uint64_t> out_of_sequence_packets;
  /// Negative acknowledgements that arrived for packets which the other end misses.
  std::optional<uint64_t> sequence_errors;
  /// Number of times that no acknowledgement arrived and a sender's timer ran out.
  std::optional<uint64_t> acknowledgement_timeouts;
};

/// Returns the counters of all ports of all RDMA devices, by device and port; none if there is no
/// device. Some drivers ask the card's firmware for each counter, so it may take a while: do not
/// call it on a thread that others wait for. `folder` is another place for tests.
std::vector<RdmaCounters> ReadRdmaCounters(const std::string& folder = "/sys/class/infiniband");

}  // namespace harmonaize

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace harmonaize {

/// What one port of an RDMA device has counted since the device came up. nullopt: this device does
/// not count that, or its driver knows it by another name (they are those of mlx4 and mlx5).
struct RdmaCounters {
  std::string device;  ///< "mlx5_0"
  int port = 1;

  /// Bytes. Over Ethernet (RoCE) RDMA's alone; the others are with the network device.
  std::optional<uint64_t> sent_bytes;
  std::optional<uint64_t> received_bytes;
  /// Ticks in which there was something to send but nothing was sent, for want of credits or of a
  /// turn. How long a tick lasts is the device's own affair: good for comparing a port with itself.
  std::optional<uint64_t> send_wait_ticks;
  /// RoCE: packets that came marked by a switch whose queue was long (ECN).
  std::optional<uint64_t> marked_packets;
  /// RoCE: notifications of congestion, sent in answer to marked packets, and heeded as a sender.
  std::optional<uint64_t> sent_congestion_notifications;
  std::optional<uint64_t> handled_congestion_notifications;
  /// Packets that came out of their order.
  std::optional<uint64_t> out_of_sequence_packets;
  /// Negative acknowledgements that came for packets which the other end misses.
  std::optional<uint64_t> sequence_errors;
  /// Times that no acknowledgement came at all and a sender's timer ran out.
  std::optional<uint64_t> acknowledgement_timeouts;
};

/// The counters of all ports of all RDMA devices, by device and port; empty where there is none.
/// Some drivers ask the card's firmware for each counter, so it may take a while: not for a thread
/// that others wait for. `folder` is another place for tests.
std::vector<RdmaCounters> ReadRdmaCounters(const std::string& folder = "/sys/class/infiniband");

}  // namespace harmonaize

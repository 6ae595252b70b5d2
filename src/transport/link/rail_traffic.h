#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/transport/address.h"
#include "src/transport/message.h"

namespace harmonaize::transport {

/// Bytes that one job of a tenant has sent over a rail.
struct JobTraffic {
  uint32_t tenant = 0;
  uint64_t job = 0;
  double weight = 1;        ///< The weight in its last message.
  uint64_t sent_bytes = 0;  ///< Bytes handed to the kernel; starts anew after the job was
                            ///< forgotten.
};
/// Adds a job's traffic to a list that is sorted by tenant and job.
void AddJobTraffic(const JobTraffic& more, std::vector<JobTraffic>* all);

/// Traffic of one rail to one peer since they were linked. For a TCP rail the kernel counts it
/// (TCP_INFO); other rails report what they can.
struct RailTraffic {
  std::string name{};  ///< Name as in PeerInfo.
  int connections = 0;
  uint64_t sent_bytes = 0;  ///< Bytes that were acknowledged.
  uint64_t received_bytes = 0;
  uint64_t sent_packets = 0;
  uint64_t resent_packets = 0;  ///< Packets among these that were sent again.
  double busy_seconds = 0;      ///< Time in which something was to be sent, or to be acknowledged.
  /// Current and least round trip; the difference is the time that packets wait in queues. Of
  /// several connections the one that has sent most; 0: not known.
  double round_trip_seconds = 0;
  double least_round_trip_seconds = 0;
  /// Time that arriving data waits in the queues of its way, see ArrivalDelay; of several
  /// connections the one that has received most. < 0: not known.
  double arrival_queue_seconds = -1;
  /// Whether its own way carries nothing: the figures are then those of another way, or of none.
  bool astray = false;
  std::vector<JobTraffic> jobs{};  ///< Jobs that have sent lately, sorted by tenant and number.
};

/// Traffic of all rails to one peer.
struct LinkTraffic {
  PeerId peer = 0;
  NetworkAddress remote;
  std::vector<RailTraffic> rails;
};

}  // namespace harmonaize::transport

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/transport/address.h"
#include "src/transport/message.h"

namespace harmonaize::transport {

/// What one job of a tenant has sent over a rail.
struct JobTraffic {
  uint32_t tenant = 0;
  uint64_t job = 0;
  double weight = 1;        ///< The tenant's, as its last message said.
  uint64_t sent_bytes = 0;  ///< Handed to the kernel; counted anew after the job was away.
};
/// Adds what a job has sent to a list that is by tenant and job.
void AddJobTraffic(const JobTraffic& more, std::vector<JobTraffic>* all);

/// What has gone over one rail to one peer since they are linked, and how. A TCP rail's as the
/// kernel counts it (TCP_INFO); of others only what they tell.
struct RailTraffic {
  std::string name{};  ///< As PeerInfo has it.
  int connections = 0;
  uint64_t sent_bytes = 0;  ///< That were acknowledged.
  uint64_t received_bytes = 0;
  uint64_t sent_packets = 0;
  uint64_t resent_packets = 0;  ///< Of these.
  double busy_seconds = 0;      ///< In which something was to be sent, or to be acknowledged.
  /// Now, and the least there was: the difference is what packets wait in queues. Of several
  /// connections that which has sent most; 0: not known.
  double round_trip_seconds = 0;
  double least_round_trip_seconds = 0;
  /// What comes to this side waits so long in the queues of its way, see ArrivalDelay; of several
  /// connections that which has received most. < 0: not known.
  double arrival_queue_seconds = -1;
  /// Its own way carries nothing: what it says of itself is said of another, or of none.
  bool astray = false;
  std::vector<JobTraffic> jobs{};  ///< Those that have sent lately, by tenant and number.
};

/// All rails to one peer.
struct LinkTraffic {
  PeerId peer = 0;
  NetworkAddress remote;
  std::vector<RailTraffic> rails;
};

}  // namespace harmonaize::transport

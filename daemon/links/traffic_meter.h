#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "src/transport/link/rail_traffic.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

/// What a tenant's communicator has sent over one rail between two looks.
struct JobRate {
  uint32_t tenant = 0;
  uint64_t communicator = 0;
  double weight = 1;
  double bytes_per_second = 0;
  uint64_t sent_bytes = 0;  ///< Total bytes sent; the count begins anew now and then.
};

/// What went over one rail between two looks, as this host sent it.
struct RailFlow {
  transport::PeerId peer = 0;
  size_t rail = 0;
  double bytes_per_second = 0;
  double busy = 0;  ///< Fraction of the time in which there was something to send.
  /// Seconds that data from the peer waits in queues; < 0: nothing came.
  double arrival_queue_seconds = -1;
  /// The rail's own way carries nothing. Such a flow is told even if it rests.
  bool astray = false;
  std::vector<JobRate> jobs{};  ///< The jobs whose data it was.
};

/// Makes flows of the counts that a transport keeps.
class TrafficMeter {
 public:
  /// Number of communicators of a tenant at most that are told of apart on one rail: those that
  /// have sent most. It bounds what a tenant can add to a report (some 10 KiB for each rail), and
  /// to the work of all who read it.
  static constexpr size_t kMostOfTenant = 128;

  /// Returns what has gone since the last look, over rails that were there then and had anything to
  /// send, or to receive. A rail that was not looked at for longer than `longest` seconds begins
  /// anew: a mean over a long pause says nothing of now. What the communicators of a tenant beyond
  /// kMostOfTenant have sent counts as sent by the one that has sent most.
  std::vector<RailFlow> Look(const std::vector<transport::LinkTraffic>& links, double now_seconds,
                             double longest);

 private:
  struct Counts {
    double at_seconds = 0;
    uint64_t sent_bytes = 0;
    double busy_seconds = 0;
    std::vector<transport::JobTraffic> jobs{};
  };
  static std::vector<JobRate> RatesOf(const std::vector<transport::JobTraffic>& before,
                                      const std::vector<transport::JobTraffic>& now,
                                      double seconds);
  static std::vector<JobRate> Largest(std::vector<JobRate> rates);
  std::map<std::pair<transport::PeerId, size_t>, Counts> counts_;  // of the last look
};

}  // namespace harmonaize::daemon

#include "daemon/control/traffic_meter.h"

#include <algorithm>

namespace harmonaize::daemon {

std::vector<RailFlow> TrafficMeter::Look(const std::vector<transport::LinkTraffic>& links,
                                         double now_seconds, double longest) {
  std::vector<RailFlow> flows;
  std::map<std::pair<transport::PeerId, size_t>, Counts> counts;
  for (const transport::LinkTraffic& link : links) {
    for (size_t rail = 0; rail < link.rails.size(); ++rail) {
      const transport::RailTraffic& traffic = link.rails[rail];
      const Counts now{now_seconds, traffic.sent_bytes, traffic.busy_seconds};
      counts[{link.peer, rail}] = now;
      const auto before = counts_.find({link.peer, rail});
      if (before == counts_.end()) continue;
      const double seconds = now_seconds - before->second.at_seconds;
      if (seconds <= 0 || seconds > longest || now.sent_bytes < before->second.sent_bytes) continue;
      const auto bytes = static_cast<double>(now.sent_bytes - before->second.sent_bytes);
      const double busy = (now.busy_seconds - before->second.busy_seconds) / seconds;
      if (bytes == 0 && busy <= 0 && traffic.arrival_queue_seconds < 0 && !traffic.astray) continue;
      flows.push_back({link.peer, rail, bytes / seconds, std::clamp(busy, 0.0, 1.0),
                       traffic.arrival_queue_seconds, traffic.astray});
    }
  }
  counts_ = std::move(counts);
  return flows;
}

}  // namespace harmonaize::daemon

#include "daemon/links/traffic_meter.h"

#include <algorithm>
#include <tuple>

namespace harmonaize::daemon {

std::vector<RailFlow> TrafficMeter::Look(const std::vector<transport::LinkTraffic>& links,
                                         double now_seconds, double longest) {
  std::vector<RailFlow> flows;
  std::map<std::pair<transport::PeerId, size_t>, Counts> counts;
  for (const transport::LinkTraffic& link : links) {
    for (size_t rail = 0; rail < link.rails.size(); ++rail) {
      const transport::RailTraffic& traffic = link.rails[rail];
      const Counts now{now_seconds, traffic.sent_bytes, traffic.busy_seconds, traffic.jobs};
      counts[{link.peer, rail}] = now;
      const auto before = counts_.find({link.peer, rail});
      if (before == counts_.end()) continue;
      const double seconds = now_seconds - before->second.at_seconds;
      if (seconds <= 0 || seconds > longest || now.sent_bytes < before->second.sent_bytes) continue;
      const auto bytes = static_cast<double>(now.sent_bytes - before->second.sent_bytes);
      const double busy = (now.busy_seconds - before->second.busy_seconds) / seconds;
      if (bytes == 0 && busy <= 0 && traffic.arrival_queue_seconds < 0 && !traffic.astray) continue;
      flows.push_back({link.peer, rail, bytes / seconds, std::clamp(busy, 0.0, 1.0),
                       traffic.arrival_queue_seconds, traffic.astray,
                       Largest(RatesOf(before->second.jobs, now.jobs, seconds))});
    }
  }
  counts_ = std::move(counts);
  return flows;
}

// Requires: both lists are sorted by tenant and job.
std::vector<JobRate> TrafficMeter::RatesOf(const std::vector<transport::JobTraffic>& before,
                                           const std::vector<transport::JobTraffic>& now,
                                           double seconds) {
  std::vector<JobRate> rates;
  auto old = before.begin();
  for (const transport::JobTraffic& job : now) {
    const auto name = std::tie(job.tenant, job.job);
    while (old != before.end() && std::tie(old->tenant, old->job) < name) ++old;
    const bool known = old != before.end() && std::tie(old->tenant, old->job) == name &&
                       old->sent_bytes <= job.sent_bytes;
    const uint64_t sent = job.sent_bytes - (known ? old->sent_bytes : 0);
    if (sent == 0) continue;
    rates.push_back(
        {job.tenant, job.job, job.weight, static_cast<double>(sent) / seconds, job.sent_bytes});
  }
  return rates;
}

// Requires: the rates of each tenant follow each other.
std::vector<JobRate> TrafficMeter::Largest(std::vector<JobRate> rates) {
  if (rates.size() <= kMostOfTenant) return rates;
  std::vector<JobRate> largest;
  auto first = rates.begin();
  while (first != rates.end()) {
    const auto last = std::find_if(first, rates.end(),
                                   [&](const JobRate& one) { return one.tenant != first->tenant; });
    const auto told =
        first + std::min<ptrdiff_t>(last - first, static_cast<ptrdiff_t>(kMostOfTenant));
    std::partial_sort(first, told, last, [](const JobRate& one, const JobRate& other) {
      return one.bytes_per_second > other.bytes_per_second;
    });
    for (auto rest = told; rest != last; ++rest) {
      first->bytes_per_second += rest->bytes_per_second;
    }
    largest.insert(largest.end(), first, told);
    first = last;
  }
  return largest;
}

}  // namespace harmonaize::daemon

#include "src/transport/link/rail_traffic.h"

#include <algorithm>
#include <tuple>

namespace harmonaize::transport {

void AddJobTraffic(const JobTraffic& more, std::vector<JobTraffic>* all) {
  const auto name = [](const JobTraffic& one) { return std::tie(one.tenant, one.job); };
  const auto place = std::lower_bound(
      all->begin(), all->end(), more,
      [&](const JobTraffic& one, const JobTraffic& other) { return name(one) < name(other); });
  if (place != all->end() && name(*place) == name(more)) {
    place->sent_bytes += more.sent_bytes;
  } else {
    all->insert(place, more);
  }
}

}  // namespace harmonaize::transport

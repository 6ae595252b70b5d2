#include "daemon/sharing/job_activity.h"

#include <algorithm>

namespace harmonaize::daemon {

JobActivity::Active* JobActivity::Of(uint32_t job) {
  const auto found = std::ranges::find(active_, job, &Active::job);
  return found != active_.end() ? &*found : &active_.emplace_back(Active{.job = job});
}

bool JobActivity::Start(uint32_t job, uint64_t now_ns) {
  std::erase_if(active_, [now_ns](const Active& active) {
    return active.under_way == 0 && now_ns - active.seen_ns > kLatelyNs;
  });
  Active* const active = Of(job);
  ++active->under_way;
  active->seen_ns = now_ns;
  return active_.size() > 1;
}

void JobActivity::End(uint32_t job, uint64_t now_ns) {
  Active* const active = Of(job);
  --active->under_way;
  active->seen_ns = now_ns;
}

}  // namespace harmonaize::daemon

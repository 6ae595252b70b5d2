#include "daemon/job_events/forming_events.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "daemon/formation/formation.h"
#include "daemon/jobs/job_table.h"
#include "daemon/tenant/rank_list.h"
#include "daemon/tenant/tenant.h"
#include "src/base/wall_clock.h"
#include "src/events/event_data.h"

namespace harmonaize::daemon {
namespace {

std::string FormingSubject(const Formation& formation, const std::vector<int>& ranks) {
  if (ranks.size() == 1) return fmt::format("ranks/{}", ranks.front());
  return "communicators/" + formation.label();
}

}  // namespace

bool FormingEvents::OnFormingLate(Job& job, const Formation& formation,
                                  const std::vector<int>& missing, uint64_t now_ns) {
  if (!events_->MayTellMore(job.tenant->identity)) return false;
  const double seconds = static_cast<double>(formation.age_ns(now_ns)) * 1e-9;
  EventData data(EventType::kRankLate, fmt::format("communicator '{}': {}: {}", formation.label(),
                                                   formation.WaitText(now_ns), kWayOutOfMissing));
  data.Set(fields::kRanks, missing)
      .Set(fields::kCommunicator, formation.label())
      .Set(fields::kOperation, formation.what())
      .Set(fields::kForSeconds, seconds)
      .Set(fields::kWhy, "not_called")
      .Set(fields::kClass, "not_called")
      .Set(fields::kDoing, "unknown")
      .Set(fields::kSince, static_cast<int64_t>((UnixSeconds() - seconds) * 1e9));
  if (formation.missing() > missing.size()) {
    data.Set(fields::kRanksUnlisted, formation.missing() - missing.size());
  }
  events_->Tell(job, {.type = EventType::kRankLate,
                      .subject = FormingSubject(formation, missing),
                      .data = std::move(data)});
  return true;
}

void FormingEvents::OnFormed(Job& job, const Formation& formation,
                             const std::vector<int>& were_missing, uint64_t now_ns) {
  const double seconds = static_cast<double>(formation.age_ns(now_ns)) * 1e-9;
  EventData data(
      EventType::kRankRecovered,
      fmt::format(
          "communicator '{}' has formed, {:.1f} s after its first rank began to wait for {}",
          formation.label(), seconds, RankList(were_missing)));
  data.Set(fields::kRanks, were_missing)
      .Set(fields::kCommunicator, formation.label())
      .Set(fields::kOperation, formation.what())
      .Set(fields::kForSeconds, seconds);
  events_->Tell(job, {.type = EventType::kRankRecovered,
                      .subject = FormingSubject(formation, were_missing),
                      .data = std::move(data)});
}

}  // namespace harmonaize::daemon

#include "daemon/job_events/announcements.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "daemon/communicator/communicator.h"
#include "daemon/communicator/communicator_registry.h"
#include "daemon/jobs/job_table.h"
#include "daemon/tenant/rank_list.h"
#include "src/base/log.h"
#include "src/base/wall_clock.h"

namespace harmonaize::daemon {
namespace {

using Kind = CloudNotice::Kind;
using State = CloudNotice::State;

bool IsOver(State state) {
  return state == State::kCompleted || state == State::kWithdrawn;
}

double SecondsUntil(const CloudNotice& notice) {
  if (!notice.not_before_seconds.has_value()) return 0;
  return std::max(0.0, static_cast<double>(*notice.not_before_seconds) - UnixSeconds());
}

std::string WhenText(const CloudNotice& notice) {
  const double seconds = SecondsUntil(notice);
  return seconds > 0 ? fmt::format("in {:.0f} s", seconds) : "now";
}

// The texts and the data name what the job's own ranks have to expect, and nothing of the host.

EventData Scheduled(const CloudNotice& notice, const std::vector<int32_t>& ranks) {
  EventData data(EventType::kMaintenanceScheduled,
                 fmt::format("maintenance {} {} {}", WhenText(notice),
                             notice.survives ? "makes a pause for" : "ends", RankList(ranks)));
  data.Set(fields::kMaintenance, notice.id)
      .Set(fields::kRanks, ranks)
      .Set(fields::kKind, notice.survives ? "pause" : "reboot")
      .Set(fields::kNoticeSeconds, SecondsUntil(notice))
      .Set(fields::kConfidence, 1.0)
      .Set(fields::kRecommendedAction, notice.survives ? "wait" : "checkpoint");
  if (notice.not_before_seconds.has_value()) {
    data.Set(fields::kNotBefore, *notice.not_before_seconds * 1'000'000'000);
  }
  if (notice.duration_seconds.has_value()) {
    data.Set(fields::kDurationSeconds, static_cast<double>(*notice.duration_seconds));
  }
  return data;
}

EventData Started(const CloudNotice& notice, const std::vector<int32_t>& ranks) {
  EventData data(EventType::kMaintenanceStarted,
                 fmt::format("maintenance of {} has begun", RankList(ranks)));
  data.Set(fields::kMaintenance, notice.id)
      .Set(fields::kRanks, ranks)
      .Set(fields::kKind, notice.survives ? "pause" : "reboot");
  if (notice.duration_seconds.has_value()) {
    data.Set(fields::kDurationSeconds, static_cast<double>(*notice.duration_seconds));
  }
  return data;
}

EventData Completed(const CloudNotice& notice, const std::vector<int32_t>& ranks) {
  const bool withdrawn = notice.state == State::kWithdrawn;
  EventData data(EventType::kMaintenanceCompleted,
                 fmt::format("maintenance of {} {}", RankList(ranks),
                             withdrawn ? "will not take place" : "is over"));
  data.Set(fields::kMaintenance, notice.id)
      .Set(fields::kRanks, ranks)
      .Set(fields::kOutcome, withdrawn ? "withdrawn" : "done");
  return data;
}

EventData Reclaim(const CloudNotice& notice, const std::vector<int32_t>& ranks) {
  EventData data(EventType::kCapacityReclaim,
                 fmt::format("{} will be taken back {}", RankList(ranks), WhenText(notice)));
  const auto now = static_cast<int64_t>(UnixSeconds());
  data.Set(fields::kRanks, ranks)
      .Set(fields::kDeadline, notice.not_before_seconds.value_or(now) * 1'000'000'000)
      .Set(fields::kNoticeSeconds, SecondsUntil(notice))
      .Set(fields::kOffer, notice.id)
      .Set(fields::kConfidence, 1.0)
      .Set(fields::kRecommendedAction, "checkpoint_and_leave");
  return data;
}

EventData Reclaimed(const std::vector<int32_t>& ranks) {
  EventData data(EventType::kCapacityReclaimed,
                 fmt::format("{} are being taken back", RankList(ranks)));
  data.Set(fields::kRanks, ranks);
  return data;
}

EventData ReclaimWithdrawn(const CloudNotice& notice, const std::vector<int32_t>& ranks) {
  EventData data(EventType::kCapacityWithdrawn,
                 fmt::format("{} will not be taken back after all", RankList(ranks)));
  data.Set(fields::kOffer, notice.id);
  return data;
}

EventData AtRisk(const std::vector<int32_t>& ranks) {
  EventData data(EventType::kCapacityForecast,
                 fmt::format("{} may be taken back soon; nobody knows when", RankList(ranks)));
  data.Set(fields::kRanks, ranks).Set(fields::kRecommendedAction, "checkpoint");
  return data;
}

EventData Failing(const std::vector<int32_t>& ranks) {
  EventData data(EventType::kHostFailing,
                 fmt::format("{} may fail: what they run on is not healthy", RankList(ranks)));
  data.Set(fields::kRanks, ranks)
      .Set(fields::kConfidence, 0.5)
      .Set(fields::kRecommendedAction, "checkpoint");
  return data;
}

/// Returns the event for a notice's present state; nullopt if there is nothing to say.
std::optional<JobEvents::News> NewsOf(const CloudNotice& notice,
                                      const std::vector<int32_t>& ranks) {
  const auto news = [](EventType type, EventData data) {
    return JobEvents::News{.type = type, .subject = "", .data = std::move(data)};
  };
  switch (notice.kind) {
    case Kind::kMaintenance:
      if (notice.state == State::kScheduled) {
        return news(EventType::kMaintenanceScheduled, Scheduled(notice, ranks));
      }
      if (notice.state == State::kStarted) {
        return news(EventType::kMaintenanceStarted, Started(notice, ranks));
      }
      return news(EventType::kMaintenanceCompleted, Completed(notice, ranks));
    case Kind::kReclaim:
      if (notice.state == State::kScheduled) {
        return news(EventType::kCapacityReclaim, Reclaim(notice, ranks));
      }
      if (notice.state == State::kWithdrawn) {
        return news(EventType::kCapacityWithdrawn, ReclaimWithdrawn(notice, ranks));
      }
      return news(EventType::kCapacityReclaimed, Reclaimed(ranks));
    case Kind::kRiskOfReclaim:
      if (IsOver(notice.state)) return std::nullopt;
      return news(EventType::kCapacityForecast, AtRisk(ranks));
    case Kind::kUnhealthy:
      if (IsOver(notice.state)) return std::nullopt;
      return news(EventType::kHostFailing, Failing(ranks));
  }
  return std::nullopt;
}

}  // namespace

Status Announcements::Take(const CloudNotice& notice) {
  const Key key{notice.source, notice.id};
  auto found = notices_.find(key);
  if (found == notices_.end()) {
    if (IsOver(notice.state)) {
      return InvalidUsage("nothing is announced under the id '{}', so it cannot end", notice.id);
    }
    if (notices_.size() >= kMostNotices) {
      return InvalidUsage("{} things are announced for this host, which is as many as may be",
                          kMostNotices);
    }
    found = notices_.emplace(key, Entry{notice, {}}).first;
  } else if (found->second.notice.state != notice.state) {
    found->second.told.clear();
  }
  found->second.notice = notice;
  NotePromise(notice);
  Log(LogLevel::kInfo, kLogInit, "{} announces {} for this host: {}", notice.source, notice.id,
      notice.text);
  for (const auto& [id, communicator] : services_.communicators->all()) TellJobOf(*communicator);
  if (IsOver(notice.state)) notices_.erase(found);
  return Status::Ok();
}

void Announcements::OnFormed(const Communicator& communicator, int /*hosts*/) {
  TellJobOf(communicator);
}

// A job that has no communicators any more may be forgotten. If it comes again it is told again.
void Announcements::OnEnded(const Communicator& communicator) {
  if (communicator.job()->communicators > 1) return;
  for (auto& [key, entry] : notices_) entry.told.erase(communicator.job());
}

void Announcements::TellJobOf(const Communicator& communicator) {
  if (!communicator.has_ranks_here()) return;
  for (auto& [key, entry] : notices_) {
    if (entry.told.insert(communicator.job()).second) Tell(entry.notice, *communicator.job());
  }
}

void Announcements::Tell(const CloudNotice& notice, Job& job) {
  std::optional<JobEvents::News> news = NewsOf(notice, RanksHereOf(job));
  if (news.has_value()) services_.events->Tell(job, std::move(*news));
}

// The ranks are those of the job's largest communicator here, which is that of all ranks in most
// programs.
std::vector<int32_t> Announcements::RanksHereOf(const Job& job) const {
  const Communicator* largest = nullptr;
  for (const auto& [id, communicator] : services_.communicators->all()) {
    if (communicator->job() != &job || !communicator->has_ranks_here()) continue;
    if (largest == nullptr || communicator->ranks() > largest->ranks()) {
      largest = communicator.get();
    }
  }
  std::vector<int32_t> ranks;
  for (int rank = 0; largest != nullptr && rank < largest->ranks(); ++rank) {
    if (!largest->IsRemote(rank) && !largest->HasLeft(rank)) ranks.push_back(rank);
  }
  return ranks;
}

void Announcements::NotePromise(const CloudNotice& notice) {
  if (notice.kind != Kind::kMaintenance && notice.kind != Kind::kReclaim) return;
  const auto same = [&](const Promise& one) {
    return one.source == notice.source && one.id == notice.id;
  };
  auto promise = std::find_if(promises_.rbegin(), promises_.rend(), same);
  if (promise == promises_.rend()) {
    if (promises_.size() >= kMostPromises) promises_.erase(promises_.begin());
    promises_.push_back(
        {.source = notice.source,
         .id = notice.id,
         .kind = notice.kind,
         .announced_seconds = UnixSeconds(),
         .promised_from_seconds = static_cast<double>(notice.not_before_seconds.value_or(0))});
    promise = promises_.rbegin();
  }
  if (notice.state == State::kStarted && promise->began_seconds == 0) {
    promise->began_seconds = UnixSeconds();
  }
  promise->withdrawn = notice.state == State::kWithdrawn;
}

std::vector<CloudNotice> Announcements::Active() const {
  std::vector<CloudNotice> active;
  for (const auto& [key, entry] : notices_) active.push_back(entry.notice);
  return active;
}

}  // namespace harmonaize::daemon

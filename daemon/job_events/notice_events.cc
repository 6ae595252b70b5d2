#include "daemon/job_events/notice_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "daemon/promises/promise.h"
#include "daemon/tenant/rank_list.h"
#include "src/base/time_text.h"
#include "src/base/wall_clock.h"
#include "src/events/event.h"
#include "src/events/event_data.h"

namespace harmonaize::daemon {
namespace {

using Kind = CloudNotice::Kind;
using State = CloudNotice::State;

/// Bytes of a time's text before the part of a second: "2026-11-26T08:30:00".
constexpr size_t kMomentBytes = 19;

double SecondsUntil(const CloudNotice& notice) {
  if (!notice.not_before_seconds.has_value()) return 0;
  return std::max(0.0, static_cast<double>(*notice.not_before_seconds) - UnixSeconds());
}

}  // namespace

std::string MomentText(int64_t unix_seconds) {
  return TimeText(unix_seconds * 1'000'000'000).substr(0, kMomentBytes) + "Z";
}

// Every part is rounded down.
std::string TimeLeftText(double seconds) {
  const auto whole = static_cast<int64_t>(seconds);
  const int64_t days = whole / 86400;
  const int64_t hours = whole / 3600 % 24;
  const int64_t minutes = whole / 60 % 60;
  if (days > 0) return fmt::format("{} d {} h", days, hours);
  if (hours > 0) return fmt::format("{} h {} min", hours, minutes);
  return minutes > 0 ? fmt::format("{} min {} s", minutes, whole % 60) : fmt::format("{} s", whole);
}

namespace {

// Text and data of an event have the same seconds.
std::string WhenText(const CloudNotice& notice, double seconds) {
  if (!notice.not_before_seconds.has_value()) return "at a time that nobody knows yet";
  if (seconds <= 0) return "now";
  return fmt::format("in {}, at {}", TimeLeftText(seconds), MomentText(*notice.not_before_seconds));
}

// The texts and the data name what the job's own ranks have to expect, and nothing of the host.

// A drain ends nothing that goes on, also not when its time is over: only a restart does.
EventData Draining(const CloudNotice& notice, const std::vector<int32_t>& ranks) {
  const bool restarts = notice.kind == Kind::kServiceRestart;
  const bool timed = notice.not_before_seconds.has_value();
  const std::string until = timed ? "is waited for until " + MomentText(*notice.not_before_seconds)
                                  : std::string("may take as long as it needs");
  EventData data(
      EventType::kMaintenanceScheduled,
      fmt::format("the service of {} takes no new programs{}; what runs goes on, and {}",
                  RankList(ranks), restarts ? ", and restarts once none is left" : "", until));
  data.Set(fields::kMaintenance, notice.id)
      .Set(fields::kRanks, ranks)
      .Set(fields::kKind, "unknown")
      .Set(fields::kRecommendedAction, "none");
  if (timed) {
    data.Set(fields::kNotBefore, *notice.not_before_seconds * 1'000'000'000)
        .Set(fields::kNoticeSeconds, SecondsUntil(notice));
  }
  return data;
}

EventData DrainCalledOff(const CloudNotice& notice, const std::vector<int32_t>& ranks) {
  EventData data(EventType::kMaintenanceCompleted,
                 fmt::format("the service of {} takes new programs again{}", RankList(ranks),
                             notice.kind == Kind::kServiceRestart ? ", and does not restart" : ""));
  data.Set(fields::kMaintenance, notice.id)
      .Set(fields::kRanks, ranks)
      .Set(fields::kOutcome, "withdrawn");
  return data;
}

/// Returns "changed: " before the text of what a job has heard of before.
const char* ChangeText(bool is_change) {
  return is_change ? "changed: " : "";
}

std::string LengthText(const CloudNotice& notice) {
  if (!notice.duration_seconds.has_value()) return "";
  return fmt::format(", for {},", TimeLeftText(static_cast<double>(*notice.duration_seconds)));
}

EventData Scheduled(const CloudNotice& notice, const std::vector<int32_t>& ranks, bool is_change) {
  const double seconds = SecondsUntil(notice);
  EventData data(EventType::kMaintenanceScheduled,
                 fmt::format("{}maintenance {}{} {} {}", ChangeText(is_change),
                             WhenText(notice, seconds), LengthText(notice),
                             notice.survives ? "makes a pause for" : "ends", RankList(ranks)));
  data.Set(fields::kMaintenance, notice.id)
      .Set(fields::kRanks, ranks)
      .Set(fields::kKind, notice.survives ? "pause" : "reboot")
      .Set(fields::kNoticeSeconds, seconds)
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

EventData Reclaim(const CloudNotice& notice, const std::vector<int32_t>& ranks, bool is_change) {
  const double seconds = SecondsUntil(notice);
  EventData data(EventType::kCapacityReclaim,
                 fmt::format("{}{} will be taken back {}", ChangeText(is_change), RankList(ranks),
                             WhenText(notice, seconds)));
  const auto now = static_cast<int64_t>(UnixSeconds());
  data.Set(fields::kRanks, ranks)
      .Set(fields::kDeadline, notice.not_before_seconds.value_or(now) * 1'000'000'000)
      .Set(fields::kNoticeSeconds, seconds)
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

/// Returns when something that is only likely may happen; `unknown` where nobody knows.
std::string LikelyTimeText(const CloudNotice& notice, const char* unknown) {
  if (!notice.not_before_seconds.has_value()) return unknown;
  const double seconds = SecondsUntil(notice);
  return seconds <= 0 ? "at any moment" : WhenText(notice, seconds);
}

EventData AtRisk(const CloudNotice& notice, const std::vector<int32_t>& ranks) {
  EventData data(EventType::kCapacityForecast,
                 fmt::format("{} may be taken back {}", RankList(ranks),
                             LikelyTimeText(notice, "soon; nobody knows when")));
  data.Set(fields::kRanks, ranks).Set(fields::kRecommendedAction, "checkpoint");
  return data;
}

EventData AtRiskNoLonger(const std::vector<int32_t>& ranks) {
  EventData data(EventType::kCapacityForecast,
                 fmt::format("{} are not at risk of being taken back any more", RankList(ranks)));
  data.Set(fields::kRanks, ranks).Set(fields::kRecommendedAction, "none");
  return data;
}

EventData Failing(const CloudNotice& notice, const std::vector<int32_t>& ranks) {
  EventData data(EventType::kHostFailing,
                 fmt::format("{} may fail {}: what they run on is not healthy", RankList(ranks),
                             LikelyTimeText(notice, "at any moment")));
  data.Set(fields::kRanks, ranks)
      .Set(fields::kConfidence, 0.5)
      .Set(fields::kRecommendedAction, "checkpoint");
  return data;
}

EventData FailingNoLonger(const CloudNotice& notice, const std::vector<int32_t>& ranks) {
  EventData data(
      EventType::kMaintenanceCompleted,
      fmt::format("{} are not expected to fail any more: what they run on is healthy again",
                  RankList(ranks)));
  data.Set(fields::kMaintenance, notice.id)
      .Set(fields::kRanks, ranks)
      .Set(fields::kOutcome, notice.state == State::kWithdrawn ? "withdrawn" : "done");
  return data;
}

EventData Restarting(const CloudNotice& notice, const std::vector<int32_t>& ranks, bool is_change) {
  const double seconds = SecondsUntil(notice);
  EventData data(
      EventType::kDaemonRestarting,
      fmt::format("{}the service of {} restarts {}, or as soon as no communicator is left",
                  ChangeText(is_change), RankList(ranks), WhenText(notice, seconds)));
  data.Set(fields::kMaintenance, notice.id)
      .Set(fields::kDeadline, *notice.not_before_seconds * 1'000'000'000)
      .Set(fields::kNoticeSeconds, seconds)
      .Set(fields::kRecommendedAction, "checkpoint");
  return data;
}

/// Returns whether a notice of a restart says when. An event of a restart has to.
bool SaysWhen(const CloudNotice& notice) {
  return notice.not_before_seconds.has_value();
}

bool IsOver(State state) {
  return state == State::kCompleted || state == State::kWithdrawn;
}

}  // namespace

std::optional<JobEvents::News> NewsOf(const CloudNotice& notice, const std::vector<int32_t>& ranks,
                                      bool is_change) {
  const auto news = [](EventType type, EventData data) {
    return JobEvents::News{.type = type, .subject = "", .data = std::move(data)};
  };
  if (IsPlainDrain(notice)) {
    if (IsOver(notice.state)) {
      return news(EventType::kMaintenanceCompleted, DrainCalledOff(notice, ranks));
    }
    return news(EventType::kMaintenanceScheduled, Draining(notice, ranks));
  }
  switch (notice.kind) {
    case Kind::kMaintenance:
      if (notice.state == State::kScheduled) {
        return news(EventType::kMaintenanceScheduled, Scheduled(notice, ranks, is_change));
      }
      if (notice.state == State::kStarted) {
        return news(EventType::kMaintenanceStarted, Started(notice, ranks));
      }
      return news(EventType::kMaintenanceCompleted, Completed(notice, ranks));
    case Kind::kReclaim:
      if (notice.state == State::kScheduled) {
        return news(EventType::kCapacityReclaim, Reclaim(notice, ranks, is_change));
      }
      if (notice.state == State::kWithdrawn) {
        return news(EventType::kCapacityWithdrawn, ReclaimWithdrawn(notice, ranks));
      }
      return news(EventType::kCapacityReclaimed, Reclaimed(ranks));
    case Kind::kRiskOfReclaim:
      if (IsOver(notice.state)) {
        return news(EventType::kCapacityForecast, AtRiskNoLonger(ranks));
      }
      return news(EventType::kCapacityForecast, AtRisk(notice, ranks));
    case Kind::kUnhealthy:
      if (IsOver(notice.state)) {
        return news(EventType::kMaintenanceCompleted, FailingNoLonger(notice, ranks));
      }
      return news(EventType::kHostFailing, Failing(notice, ranks));
    case Kind::kServiceRestart:
      // The end of the daemon is told by JobEvents::TellOfEnd.
      if (notice.state == State::kStarted) return std::nullopt;
      if (notice.state == State::kWithdrawn) {
        return news(EventType::kMaintenanceCompleted, DrainCalledOff(notice, ranks));
      }
      if (IsOver(notice.state)) {
        return news(EventType::kMaintenanceCompleted, Completed(notice, ranks));
      }
      if (SaysWhen(notice))
        return news(EventType::kDaemonRestarting, Restarting(notice, ranks, is_change));
      return news(EventType::kMaintenanceScheduled, Draining(notice, ranks));
  }
  return std::nullopt;
}

}  // namespace harmonaize::daemon

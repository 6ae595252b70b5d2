#include "daemon/checkpoint_advice/advice_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "daemon/job_events/notice_events.h"
#include "src/events/event_data.h"

namespace harmonaize::daemon {
namespace {

int64_t UnixNanoseconds(double seconds) {
  return static_cast<int64_t>(seconds * 1e6) * 1000;
}

/// Returns against what a checkpoint guards, after "a checkpoint".
const char* PurposeText(SaveReason why) {
  switch (why) {
    case SaveReason::kReclaim: return "before ranks are taken back";
    case SaveReason::kMaintenance: return "before maintenance";
    case SaveReason::kHostFailing: return "since what some ranks run on is not healthy";
    case SaveReason::kLinkFailing: return "since a connection is cut";
    case SaveReason::kServiceRestart: return "before the service restarts";
    case SaveReason::kPrice: return "before the price rises";
    case SaveReason::kInterval: return "against failures that nobody announces";
    case SaveReason::kRequest: return "by request";
  }
  return "";
}

std::string WindowText(const SaveMoment& moment, double now_seconds) {
  const std::string until = MomentText(static_cast<int64_t>(moment.deadline_seconds));
  if (moment.not_before_seconds <= now_seconds) return "now, begun until " + until;
  return fmt::format("in {}, begun until {}", TimeLeftText(moment.not_before_seconds - now_seconds),
                     until);
}

/// Returns what the provider would do in the job's place.
const char* ActionOf(const SaveMoment& moment) {
  if (!moment.fits) return "none";
  return moment.why == SaveReason::kReclaim ? "checkpoint_and_leave" : "checkpoint";
}

Quantiles InEvent(const Spread& spread) {
  return {spread.p10, spread.p50, spread.p90};
}

}  // namespace

std::string SaveSentence(const SaveMoment& moment, const SaveInterval& interval,
                         double now_seconds) {
  const std::string takes = fmt::format("{:.3g} s", moment.takes.p50);
  if (!moment.fits) {
    return fmt::format("no checkpoint is advised {}: it takes {} and does not fit the notice",
                       PurposeText(moment.why), takes);
  }
  const std::string base = fmt::format("a checkpoint is advised {}: {}", PurposeText(moment.why),
                                       WindowText(moment, now_seconds));
  if (moment.why != SaveReason::kInterval) {
    return fmt::format("{}, which is likely to take {}", base, takes);
  }
  return fmt::format("{}, and then every {}", base, TimeLeftText(interval.seconds));
}

JobEvents::News NewsOf(const SaveMoment& moment, const SaveInterval& interval, double now_seconds) {
  EventData data(EventType::kCheckpointAdvised, SaveSentence(moment, interval, now_seconds));
  data.Set(fields::kWhy, NameOf(moment.why))
      .Set(fields::kDeadline, UnixNanoseconds(moment.deadline_seconds))
      .Set(fields::kNoticeSeconds, std::max(0.0, moment.deadline_seconds - now_seconds))
      .Set(fields::kExpected, InEvent(moment.takes))
      .Set(fields::kConfidence, std::clamp(moment.confidence, 0.0, 1.0))
      .Set(fields::kRecommendedAction, ActionOf(moment));
  if (moment.not_before_seconds > now_seconds) {
    data.Set(fields::kNotBefore, UnixNanoseconds(moment.not_before_seconds));
  }
  if (!moment.ranks.empty()) data.Set(fields::kRanks, moment.ranks);
  JobEvents::News news{EventType::kCheckpointAdvised, "", std::move(data)};
  const bool is_of_course =
      moment.why == SaveReason::kInterval || moment.why == SaveReason::kRequest;
  if (is_of_course) news.severity = Severity::kInfo;
  return news;
}

JobEvents::News NewsOf(const SavedReport& report) {
  EventData data(EventType::kCheckpointSaved, fmt::format("the checkpoint of step {} is safe: {}",
                                                          report.step, NameOf(report.place)));
  data.Set(fields::kStep, report.step)
      .Set(fields::kWhere, NameOf(report.place))
      .Set(fields::kEpochEnd, report.is_epoch_end);
  if (report.bytes.has_value()) data.Set(fields::kBytes, *report.bytes);
  if (report.safe_seconds.has_value()) data.Set(fields::kTookSeconds, *report.safe_seconds);
  if (report.stall_seconds.has_value()) data.Set(fields::kStallSeconds, *report.stall_seconds);
  return {EventType::kCheckpointSaved, "", std::move(data)};
}

JobEvents::News FailureNewsOf(const SavedReport& report) {
  EventData data(EventType::kCheckpointLost,
                 fmt::format("the checkpoint of step {} is not safe ({}): {}", report.step,
                             NameOf(report.place), report.failure));
  data.Set(fields::kStep, report.step).Set(fields::kWhere, NameOf(report.place));
  return {EventType::kCheckpointLost, "", std::move(data)};
}

}  // namespace harmonaize::daemon

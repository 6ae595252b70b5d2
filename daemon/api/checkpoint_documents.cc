#include "daemon/api/checkpoint_documents.h"

#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "daemon/api/json_body.h"
#include "daemon/checkpoint_advice/advice_events.h"
#include "daemon/jobs/job_table.h"
#include "src/base/time_text.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

constexpr double kSecondsOfDay = 86400;
/// Largest step, and most bytes of a checkpoint, that a report may tell of: whole numbers that a
/// double holds.
constexpr double kMostReportedNumber = 0x1p53;
/// Most bytes of the reason why a checkpoint is not safe: those of a writer's message.
constexpr size_t kMostFailureBytes = 4096;

json MomentOf(double unix_seconds) {
  return TimeText(static_cast<int64_t>(unix_seconds * 1e6) * 1000);
}

json SpreadDocument(const Spread& spread) {
  return {{"p10", spread.p10}, {"p50", spread.p50}, {"p90", spread.p90}};
}

/// Returns failures a second as failures a day.
json RateDocument(double mean, const Spread& spread) {
  return {{"per_day", mean * kSecondsOfDay},
          {"p10", spread.p10 * kSecondsOfDay},
          {"p50", spread.p50 * kSecondsOfDay},
          {"p90", spread.p90 * kSecondsOfDay}};
}

json EstimateDocument(const SaveEstimate& estimate) {
  return {{"stall_seconds", estimate.stall_seconds},
          {"seconds", SpreadDocument(estimate.safe_seconds)},
          {"from", NameOf(estimate.basis)}};
}

json IntervalDocument(const CheckpointAdvice& advice) {
  const SaveInterval& interval = advice.interval;
  return {{"seconds", interval.seconds},
          {"from", NameOf(interval.bound)},
          {"optimum_seconds", interval.optimum_seconds},
          {"optimum", SpreadDocument(advice.optimum_seconds)},
          {"overhead", interval.overhead},
          {"expected_lost_seconds", interval.expected_lost_seconds},
          {"worst_lost_seconds", interval.worst_lost_seconds},
          {"keeps_most_lost_work", interval.keeps_most_lost},
          {"keeps_overhead_cap", interval.keeps_cap}};
}

json HazardDocument(const CheckpointAdvice& advice) {
  json document = RateDocument(advice.hazard.mean, advice.hazard.spread);
  document["announced_per_day"] = advice.notice_hazard * kSecondsOfDay;
  document["rank_failures"] = advice.rank_failures;
  document["causes"] = json::array();
  for (size_t i = 0; i < kFailureCauseCount; ++i) {
    const HazardOfCause& cause = advice.hazard.by_cause[i];
    json one = RateDocument(cause.mean, cause.spread);
    one["cause"] = NameOf(static_cast<FailureCause>(i));
    document["causes"].push_back(std::move(one));
  }
  return document;
}

json LastDocument(const CheckpointAdvice& advice) {
  if (!advice.last.has_value()) return nullptr;
  const SavedReport& last = *advice.last;
  json document = {{"step", last.step},
                   {"where", NameOf(last.place)},
                   {"epoch_end", last.is_epoch_end},
                   {"bytes", nullptr},
                   {"saved", nullptr}};
  if (last.bytes.has_value()) document["bytes"] = *last.bytes;
  if (advice.saved_seconds.has_value()) document["saved"] = MomentOf(*advice.saved_seconds);
  return document;
}

}  // namespace

json MomentDocument(const SaveMoment& moment, const CheckpointAdvice& advice) {
  return {{"why", NameOf(moment.why)},
          {"fits", moment.fits},
          {"now", moment.fits && moment.not_before_seconds <= advice.now_seconds},
          {"not_before", MomentOf(moment.not_before_seconds)},
          {"deadline", MomentOf(moment.deadline_seconds)},
          {"confidence", moment.confidence},
          {"expected", SpreadDocument(moment.takes)},
          {"ranks", moment.ranks},
          {"text", SaveSentence(moment, advice.interval, advice.now_seconds)}};
}

json AdviceDocument(const Job& job, const CheckpointAdvice& advice) {
  json moments = json::array();
  for (const SaveMoment& moment : advice.moments) {
    moments.push_back(MomentDocument(moment, advice));
  }
  return {{"job", job.id.text()},
          {"name", job.name},
          {"advised", advice.asks},
          {"moments", std::move(moments)},
          {"interval", IntervalDocument(advice)},
          {"usual", EstimateDocument(advice.usual)},
          {"lasting", EstimateDocument(advice.lasting)},
          {"hazard", HazardDocument(advice)},
          {"last", LastDocument(advice)}};
}

Result<SavedReport> SavedReportIn(const std::string& text) {
  static constexpr std::string_view kFields[] = {"step",  "stall_seconds", "seconds", "bytes",
                                                 "where", "epoch_end",     "failed"};
  JsonBody body(text, kFields);
  body.Need("step", "the step of the checkpoint");
  body.Need("where", "where it lies: memory, peer or storage");
  SavedReport report;
  const std::optional<double> step = body.Number("step", 0, kMostReportedNumber);
  report.stall_seconds = body.Number("stall_seconds", 0, kMostSaveSeconds);
  report.safe_seconds = body.Number("seconds", 0, kMostSaveSeconds);
  const std::optional<double> bytes = body.Number("bytes", 0, kMostReportedNumber);
  const std::optional<std::string> where = body.Text("where", 16);
  report.is_epoch_end = body.YesNo("epoch_end").value_or(false);
  report.failure = body.Text("failed", kMostFailureBytes).value_or("");
  HZ_RETURN_IF_ERROR(body.status());
  if (std::floor(*step) != *step) {
    return InvalidArgument("'step' must be a whole number, and is {:g}", *step);
  }
  const std::optional<SavePlace> place = SavePlaceNamed(*where);
  if (!place.has_value()) {
    return InvalidArgument("'where' is one of memory, peer and storage, and not '{}'", *where);
  }
  report.step = static_cast<uint64_t>(*step);
  report.place = *place;
  if (bytes.has_value()) report.bytes = static_cast<uint64_t>(*bytes);
  return report;
}

}  // namespace harmonaize::daemon

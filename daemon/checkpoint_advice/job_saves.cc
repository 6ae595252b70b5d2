#include "daemon/checkpoint_advice/job_saves.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <nlohmann/json.hpp>

#include "daemon/promises/record_fields.h"
#include "src/base/json_text.h"
#include "src/events/event.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

/// Windows that differ by less than this part of what is left until them, and by less than so many
/// seconds, are one piece of advice: what a checkpoint takes varies.
constexpr double kAlikePart = 0.2;
constexpr double kAlikeSeconds = 30;

/// Most bytes of a tenant's name in a record's key: with kind and id they stay below
/// kMostRecordKeyBytes.
constexpr size_t kMostKeyTenantBytes = 400;
constexpr double kDaySeconds = 86400;

/// A time that is not known, in a record.
json Known(const std::optional<double>& seconds) {
  return seconds.value_or(0);
}

std::optional<double> KnownIn(RecordFields* fields, const char* name) {
  const double seconds = fields->Seconds(name);
  return seconds > 0 ? std::optional(seconds) : std::nullopt;
}

json ReportJson(const SavedReport& report) {
  return {{"step", report.step},
          {"place", static_cast<uint64_t>(report.place)},
          {"stall", Known(report.stall_seconds)},
          {"safe", Known(report.safe_seconds)},
          {"bytes", report.bytes.value_or(0)},
          {"epoch_end", report.is_epoch_end}};
}

/// Returns the place with this number; wrong fields for a number that is none.
SavePlace PlaceIn(RecordFields* fields, const char* name) {
  const uint64_t place = fields->Count(name);
  return fields->Expect(place < kSavePlaceCount) ? static_cast<SavePlace>(place)
                                                 : SavePlace::kStorage;
}

std::optional<SavedReport> ReportIn(const json& object) {
  RecordFields fields(JsonText(object));
  SavedReport report{.step = fields.Count("step"), .place = PlaceIn(&fields, "place")};
  report.stall_seconds = KnownIn(&fields, "stall");
  report.safe_seconds = KnownIn(&fields, "safe");
  const uint64_t bytes = fields.Count("bytes");
  if (bytes > 0) report.bytes = bytes;
  report.is_epoch_end = fields.YesNo("epoch_end");
  return fields.good() ? std::optional(report) : std::nullopt;
}

}  // namespace

bool JobSaves::Take(const SavedReport& report, double now_seconds) {
  const bool is_same =
      last_.has_value() && last_->step == report.step && last_->place == report.place;
  if (is_same && std::fabs(now_seconds - heard_seconds_) < kOneReportSeconds) return false;
  const double safe = report.safe_seconds.value_or(report.stall_seconds.value_or(0));
  // A report that does not say what the checkpoint took tells of its state alone.
  if (report.stall_seconds.has_value() || report.safe_seconds.has_value()) {
    times_.Take(report.place, report.stall_seconds, safe);
  }
  const double taken_at = now_seconds - std::clamp(safe, 0.0, kMostSaveSeconds);
  saved_seconds_ = std::max(saved_seconds_.value_or(0), taken_at);
  if (report.place != SavePlace::kMemory) {
    lasting_seconds_ = std::max(lasting_seconds_.value_or(0), taken_at);
    lasting_step_ = report.step;
  }
  last_ = report;
  heard_seconds_ = now_seconds;
  return true;
}

// When the checkpoint before was taken is not known any more, so all work counts as not safe.
void JobSaves::TakeLost(uint64_t step, SavePlace place) {
  if (place != SavePlace::kMemory && lasting_step_ == step) lasting_seconds_.reset();
  if (last_.has_value() && last_->step == step && last_->place == place) saved_seconds_.reset();
}

bool JobSaves::TakeFailure(double now_seconds) {
  const bool is_same = failed_seconds_.has_value() && now_seconds >= *failed_seconds_ &&
                       now_seconds - *failed_seconds_ < kOneFailureSeconds;
  if (is_same) return false;
  failed_seconds_ = now_seconds;
  ranks_.events += 1;
  return true;
}

void JobSaves::Watch(double ranks, double seconds) {
  ranks_.Age(seconds);
  ranks_.unit_seconds += std::max(0.0, ranks) * std::max(0.0, seconds);
}

void JobSaves::TakeNotice(SaveNotice notice) {
  const auto known = notices_.find(notice.id);
  if (known != notices_.end()) {
    // When the job heard of it first decides which checkpoints knew of it.
    notice.told_seconds = known->second.told_seconds;
    known->second = std::move(notice);
    return;
  }
  if (notices_.size() >= kMostNotices) {
    const auto oldest = std::min_element(
        notices_.begin(), notices_.end(),
        [](const auto& a, const auto& b) { return a.second.told_seconds < b.second.told_seconds; });
    EndNotice(std::string(oldest->first));
  }
  std::string id = notice.id;
  notices_.emplace(std::move(id), std::move(notice));
}

void JobSaves::EndNotice(const std::string& id) {
  notices_.erase(id);
  told_.erase(id);
}

void JobSaves::ForgetPast(double now_seconds) {
  std::vector<std::string> past;
  for (const auto& [id, notice] : notices_) {
    if (notice.deadline_seconds.has_value() && *notice.deadline_seconds <= now_seconds) {
      past.push_back(id);
    }
  }
  for (const std::string& id : past) EndNotice(id);
}

std::vector<SaveNotice> JobSaves::Notices() const {
  std::vector<SaveNotice> all;
  for (const auto& [id, notice] : notices_) all.push_back(notice);
  return all;
}

bool JobSaves::IsNews(const SaveMoment& moment, double now_seconds) const {
  const auto found = told_.find(moment.notice);
  if (found == told_.end()) return true;
  const SaveMoment& known = found->second.moment;
  if (known.why != moment.why || known.fits != moment.fits) return true;
  // A window that has come is the one that was told, however long it is still open.
  if (known.not_before_seconds <= now_seconds && moment.not_before_seconds <= now_seconds) {
    return false;
  }
  const double left = std::max(0.0, moment.deadline_seconds - now_seconds);
  const double alike = std::max(kAlikeSeconds, kAlikePart * left);
  return std::fabs(known.deadline_seconds - moment.deadline_seconds) > alike;
}

void JobSaves::NoteTold(const SaveMoment& moment, double now_seconds) {
  if (moment.why == SaveReason::kInterval) {
    advised_seconds_ = now_seconds;
  } else if (!moment.notice.empty() && notices_.contains(moment.notice)) {
    told_[moment.notice] = {moment, now_seconds};
  }
}

// Two containers of one user may have jobs of the same id. The end of a long name tells them apart.
std::string JobSavesKey(const std::string& tenant, const std::string& job) {
  const size_t cut = tenant.size() - std::min(tenant.size(), kMostKeyTenantBytes);
  return job + " " + tenant.substr(cut);
}

void JobSaves::NoteToldElsewhere(SaveMoment moment, double now_seconds) {
  std::optional<double> soonest;
  for (const auto& [id, notice] : notices_) {
    if (notice.why != moment.why) continue;
    // What may happen at any moment is as near as can be.
    const double after = notice.deadline_seconds.value_or(now_seconds) - moment.deadline_seconds;
    const double distance = std::fabs(after);
    if (soonest.has_value() && distance >= *soonest) continue;
    soonest = distance;
    moment.notice = id;
  }
  NoteTold(moment, now_seconds);
}

Record RecordOf(const std::string& tenant, const std::string& job, const JobSaves& saves) {
  json times = json::array();
  // The place that was used last comes last, as it came.
  const size_t last = saves.last_.has_value() ? static_cast<size_t>(saves.last_->place) : 0;
  for (size_t i = 1; i <= kSavePlaceCount; ++i) {
    const size_t place = (last + i) % kSavePlaceCount;
    for (const SaveTimes::Taken& one : saves.times_.Of(static_cast<SavePlace>(place))) {
      times.push_back({{"place", place}, {"safe", one.safe_seconds}});
      if (one.stall_seconds.has_value()) times.back()["stall"] = *one.stall_seconds;
    }
  }
  json object = {{"tenant", tenant},
                 {"job", job},
                 {"times", std::move(times)},
                 {"rank_failures", saves.ranks_.events},
                 {"rank_days", saves.ranks_.unit_seconds / kDaySeconds},
                 {"saved", Known(saves.saved_seconds_)},
                 {"lasting", Known(saves.lasting_seconds_)},
                 {"lasting_step", saves.lasting_step_},
                 {"failed", Known(saves.failed_seconds_)}};
  if (saves.last_.has_value()) object["last"] = ReportJson(*saves.last_);
  return {.kind = kJobSavesRecord, .key = JobSavesKey(tenant, job), .text = JsonText(object)};
}

std::optional<KeptSaves> KeptSavesIn(const Record& record) {
  RecordFields fields(record.text);
  KeptSaves kept{.tenant = fields.Text("tenant", kMostTenantBytes),
                 .job = fields.Text("job", kMostJobIdBytes)};
  fields.Expect(record.key == JobSavesKey(kept.tenant, kept.job));
  JobSaves& saves = kept.saves;
  const json& times = fields.List("times");
  fields.Expect(times.size() <= kSavePlaceCount * SaveTimes::kKept);
  for (const json& one : times) {
    RecordFields taken(JsonText(one));
    const SavePlace place = PlaceIn(&taken, "place");
    std::optional<double> stall;
    if (taken.Has("stall")) stall = taken.Seconds("stall");
    const double safe = taken.Seconds("safe");
    if (!fields.Expect(taken.good())) break;
    saves.times_.Take(place, stall, safe);
  }
  saves.ranks_.events = fields.Seconds("rank_failures");
  saves.ranks_.unit_seconds = fields.Seconds("rank_days") * kDaySeconds;
  saves.saved_seconds_ = KnownIn(&fields, "saved");
  saves.lasting_seconds_ = KnownIn(&fields, "lasting");
  saves.lasting_step_ = fields.Count("lasting_step");
  saves.failed_seconds_ = KnownIn(&fields, "failed");
  if (fields.Has("last")) {
    const json object = ReadJson(record.text);
    saves.last_ = ReportIn(object["last"]);
    fields.Expect(saves.last_.has_value());
  }
  return fields.good() ? std::optional(std::move(kept)) : std::nullopt;
}

}  // namespace harmonaize::daemon

#include "daemon/promises/promise.h"

#include <fmt/format.h>

#include "daemon/promises/record_fields.h"
#include "daemon/promises/tenant_fields.h"
#include "src/base/json_text.h"
#include "src/events/event.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

/// Seconds by which the clocks of two machines may differ before a promise counts as broken.
constexpr double kClocksDiffer = 1;
constexpr size_t kMostSourceBytes = 32;
constexpr uint64_t kMostRank = uint64_t{1} << 31;

/// Returns the record with this object as its text. Names that are no UTF-8 are replaced.
Record Made(const char* kind, std::string key, const json& object) {
  return {kind, std::move(key), JsonText(object)};
}

CloudNotice::Kind KindIn(RecordFields& fields) {
  const uint64_t kind = fields.Count("kind");
  fields.Expect(kind <= static_cast<uint64_t>(CloudNotice::Kind::kServiceRestart));
  return fields.good() ? static_cast<CloudNotice::Kind>(kind) : CloudNotice::Kind::kMaintenance;
}

}  // namespace

bool IsPlainDrain(const CloudNotice& notice) {
  return notice.source == kOperatorSource && notice.kind == CloudNotice::Kind::kMaintenance &&
         notice.id.starts_with(kDrainPrefix);
}

bool IsCondition(CloudNotice::Kind kind) {
  return kind == CloudNotice::Kind::kUnhealthy || kind == CloudNotice::Kind::kRiskOfReclaim;
}

bool Promise::is_empty() const {
  const CloudNotice notice{.source = source, .id = id, .kind = kind};
  return promised_from_seconds == 0 && (IsCondition(kind) || IsPlainDrain(notice));
}

std::optional<bool> Promise::kept() const {
  if (promised_from_seconds == 0) return std::nullopt;
  if (began_seconds == 0) {
    const bool moved = announced_for_seconds != 0 && announced_for_seconds < promised_from_seconds;
    return moved && ended_seconds == 0 ? std::optional(false) : std::nullopt;
  }
  if (nobody_left) return true;
  return began_seconds + kClocksDiffer >= promised_from_seconds;
}

std::string ToldNotice::event_id() const {
  return Event{.job = job, .unique = unique}.id();
}

Record RecordOf(const Promise& promise) {
  return Made(kPromiseRecord, fmt::format("{:016x}", promise.number),
              {{"number", promise.number},
               {"source", promise.source},
               {"id", promise.id},
               {"kind", static_cast<uint64_t>(promise.kind)},
               {"announced", promise.announced_seconds},
               {"promised_from", promise.promised_from_seconds},
               {"announced_for", promise.announced_for_seconds},
               {"began", promise.began_seconds},
               {"ended", promise.ended_seconds},
               {"withdrawn", promise.withdrawn},
               {"nobody_left", promise.nobody_left}});
}

std::optional<Promise> PromiseIn(const Record& record) {
  RecordFields fields(record.text);
  Promise promise{.number = fields.Count("number"),
                  .source = fields.Text("source", kMostSourceBytes),
                  .id = fields.Text("id", kMostNoticeIdBytes),
                  .kind = KindIn(fields),
                  .announced_seconds = fields.Seconds("announced"),
                  .promised_from_seconds = fields.Seconds("promised_from"),
                  .began_seconds = fields.Seconds("began"),
                  .ended_seconds = fields.Seconds("ended"),
                  .withdrawn = fields.YesNo("withdrawn"),
                  .nobody_left = fields.YesNo("nobody_left")};
  if (fields.Has("announced_for")) promise.announced_for_seconds = fields.Seconds("announced_for");
  fields.Expect(promise.number > 0 && promise.number < kMostSequence);
  fields.Expect(record.key == fmt::format("{:016x}", promise.number));
  return fields.good() ? std::optional(std::move(promise)) : std::nullopt;
}

Record RecordOf(const ToldNotice& told) {
  json object = {{"job", told.job},
                 {"unique", told.unique},
                 {"type", std::string(InfoOf(told.type).name)},
                 {"promise", told.promise},
                 {"ranks", told.ranks},
                 {"ranks_unlisted", told.ranks_unlisted},
                 {"told", told.told_seconds},
                 {"deadline", told.deadline_seconds},
                 {"acknowledged", told.acknowledged_seconds},
                 {"asked", told.asked_seconds},
                 {"asked_until", told.asked_until_seconds},
                 {"replaced_by", told.replaced_by}};
  SetTenant(told.tenant, &object);
  return Made(kToldRecord, told.event_id(), object);
}

std::optional<ToldNotice> ToldNoticeIn(const Record& record) {
  RecordFields fields(record.text);
  ToldNotice told{.job = fields.Text("job", kMostJobIdBytes),
                  .unique = fields.Count("unique"),
                  .tenant = TenantIn(fields)};
  const std::optional<EventType> type = EventTypeNamed(fields.Text("type", 64));
  fields.Expect(type.has_value() && told.unique > 0 && IsJobId(told.job));
  told.type = type.value_or(told.type);
  told.promise = fields.Count("promise");
  const json& ranks = fields.List("ranks");
  fields.Expect(ranks.size() <= kMostKeptRanks);
  for (const json& rank : ranks) {
    if (!fields.Expect(rank.is_number_unsigned() && rank.get<uint64_t>() < kMostRank)) break;
    told.ranks.push_back(rank.get<int32_t>());
  }
  told.ranks_unlisted = fields.Count("ranks_unlisted");
  told.told_seconds = fields.Seconds("told");
  told.deadline_seconds = fields.Seconds("deadline");
  told.acknowledged_seconds = fields.Seconds("acknowledged");
  told.asked_seconds = fields.Seconds("asked");
  told.asked_until_seconds = fields.Seconds("asked_until");
  told.replaced_by = fields.Count("replaced_by");
  fields.Expect(record.key == told.event_id());
  return fields.good() ? std::optional(std::move(told)) : std::nullopt;
}

Record RecordOf(const CloudNotice& notice) {
  return Made(kNoticeRecord, notice.id,
              {{"source", notice.source},
               {"id", notice.id},
               {"kind", static_cast<uint64_t>(notice.kind)},
               {"state", static_cast<uint64_t>(notice.state)},
               {"not_before", notice.not_before_seconds.value_or(0)},
               {"timed", notice.not_before_seconds.has_value()},
               {"duration", notice.duration_seconds.value_or(0)},
               {"lasts", notice.duration_seconds.has_value()},
               {"survives", notice.survives},
               {"text", notice.text}});
}

std::optional<CloudNotice> NoticeIn(const Record& record) {
  RecordFields fields(record.text);
  CloudNotice notice{.source = fields.Text("source", kMostSourceBytes),
                     .id = fields.Text("id", kMostNoticeIdBytes),
                     .kind = KindIn(fields),
                     .text = {}};
  const uint64_t state = fields.Count("state");
  fields.Expect(state <= static_cast<uint64_t>(CloudNotice::State::kStarted));
  if (fields.good()) notice.state = static_cast<CloudNotice::State>(state);
  const double not_before = fields.Seconds("not_before");
  if (fields.YesNo("timed")) notice.not_before_seconds = static_cast<int64_t>(not_before);
  const double duration = fields.Seconds("duration");
  if (fields.YesNo("lasts")) notice.duration_seconds = static_cast<int64_t>(duration);
  notice.survives = fields.YesNo("survives");
  notice.text = fields.Text("text", kMostNoticeTextBytes);
  fields.Expect(!notice.id.empty() && record.key == notice.id);
  return fields.good() ? std::optional(std::move(notice)) : std::nullopt;
}

}  // namespace harmonaize::daemon

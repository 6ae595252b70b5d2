#include "daemon/checkpoint_advice/notice_reading.h"

#include <time.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "src/base/json_text.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

/// Probabilities of what is announced without one. A cut link is followed by a failure of the job
/// more seldom than a host that is not healthy, and a higher price seldom ends a job.
constexpr double kRiskOfReclaim = 0.3;
constexpr double kRiskOfLink = 0.1;
constexpr double kRiskOfPrice = 0.1;

/// Most ranks of a notice that are remembered: a host has fewer in most clouds, and the notice's
/// own event has all of them.
constexpr size_t kMostNoticeRanks = 64;

/// Reads the data of an event, which fits the schema of the event's type.
class EventFields {
 public:
  explicit EventFields(const std::string& data) : object_(ReadJson(data)) {}

  std::string Text(const char* name) const {
    const json* const value = Find(name);
    return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
  }
  std::optional<double> Number(const char* name) const {
    const json* const value = Find(name);
    if (value == nullptr || !value->is_number()) return std::nullopt;
    return value->get<double>();
  }
  bool Yes(const char* name) const {
    const json* const value = Find(name);
    return value != nullptr && value->is_boolean() && value->get<bool>();
  }
  /// A time in seconds since 1970.
  std::optional<double> Time(const char* name) const {
    // Times of events are in UTC. What they have of a second matters to no checkpoint.
    tm parts{};
    if (strptime(Text(name).c_str(), "%Y-%m-%dT%H:%M:%S", &parts) == nullptr) return std::nullopt;
    return static_cast<double>(timegm(&parts));
  }
  /// Up to kMostNoticeRanks of the ranks.
  std::vector<int32_t> Ranks() const {
    std::vector<int32_t> ranks;
    const json* const list = Find("ranks");
    if (list == nullptr || !list->is_array()) return ranks;
    for (const json& rank : *list) {
      if (ranks.size() >= kMostNoticeRanks) break;
      if (rank.is_number_integer()) ranks.push_back(rank.get<int32_t>());
    }
    return ranks;
  }

 private:
  const json* Find(const char* name) const {
    if (!object_.is_object()) return nullptr;
    const auto found = object_.find(name);
    return found == object_.end() ? nullptr : &*found;
  }

  const json object_;
};

/// Returns an id of what is announced of ranks without one. Hosts have different first ranks.
std::string IdOfRanks(std::string_view kind, const std::vector<int32_t>& ranks) {
  return std::string(kind) + "/" + (ranks.empty() ? "" : std::to_string(ranks.front()));
}

/// Returns a notice with what all of them have.
SaveNotice NoticeOf(const EventFields& fields, SaveReason why, std::string id, const char* when,
                    double now_seconds) {
  return {.id = std::move(id),
          .why = why,
          .deadline_seconds = fields.Time(when),
          .told_seconds = now_seconds,
          .confidence = fields.Number("confidence").value_or(1),
          .ranks = fields.Ranks()};
}

void ReadMaintenance(const EventFields& fields, double now_seconds, SaveNews* news) {
  // A drain that waits for jobs ends none.
  if (fields.Text("recommended_action") == "none") return;
  SaveNotice notice =
      NoticeOf(fields, SaveReason::kMaintenance, "maintenance/" + fields.Text("maintenance"),
               "not_before", now_seconds);
  notice.spares_host = fields.Text("kind") == "pause";
  news->notice = std::move(notice);
}

void ReadOffer(const EventFields& fields, double now_seconds, SaveNews* news) {
  const std::string kind = fields.Text("kind");
  if (kind != "reclaim" && kind != "move") return;
  const std::string id = "offer/" + fields.Text("offer");
  const std::string state = fields.Text("state");
  const bool stands = state == "offered" || state == "countered" || state == "accepted";
  if (!stands) {
    news->ended.push_back(id);
    return;
  }
  // What the job has proposed is not what holds.
  if (state == "countered") return;
  news->notice = NoticeOf(fields, SaveReason::kReclaim, id, "due", now_seconds);
}

void ReadForecast(const EventFields& fields, double now_seconds, SaveNews* news) {
  SaveNotice notice = NoticeOf(fields, SaveReason::kReclaim, IdOfRanks("forecast", fields.Ranks()),
                               "deadline", now_seconds);
  if (fields.Text("recommended_action") == "none") {
    news->ended.push_back(notice.id);
    return;
  }
  notice.confidence = fields.Number("confidence").value_or(kRiskOfReclaim);
  news->notice = std::move(notice);
}

void ReadRestart(const EventFields& fields, double now_seconds, SaveNews* news) {
  // Without an id the service stops now.
  const std::string maintenance = fields.Text("maintenance");
  if (maintenance.empty()) return;
  news->notice = NoticeOf(fields, SaveReason::kServiceRestart, "restart/" + maintenance, "deadline",
                          now_seconds);
}

void ReadLink(const Event& event, double now_seconds, SaveNews* news) {
  const std::string id = "link/" + event.subject;
  if (event.type == EventType::kLinkRestored) {
    news->ended.push_back(id);
    return;
  }
  news->notice = SaveNotice{.id = id,
                            .why = SaveReason::kLinkFailing,
                            .told_seconds = now_seconds,
                            .confidence = kRiskOfLink};
}

void ReadPrice(const EventFields& fields, double now_seconds, SaveNews* news) {
  const bool rises = fields.Number("to").value_or(0) > fields.Number("from").value_or(0);
  if (!rises) {
    news->ended.emplace_back("price");
    return;
  }
  news->notice = NoticeOf(fields, SaveReason::kPrice, "price", "not_before", now_seconds);
  news->notice->confidence = kRiskOfPrice;
}

std::optional<SavedReport> ReportOf(const EventFields& fields) {
  const std::optional<SavePlace> place = SavePlaceNamed(fields.Text("where"));
  const std::optional<double> step = fields.Number("step");
  if (!place.has_value() || !step.has_value()) return std::nullopt;
  SavedReport report{.step = static_cast<uint64_t>(*step),
                     .place = *place,
                     .stall_seconds = fields.Number("stall_seconds"),
                     .safe_seconds = fields.Number("took_seconds"),
                     .is_epoch_end = fields.Yes("epoch_end")};
  if (const std::optional<double> bytes = fields.Number("bytes")) {
    report.bytes = static_cast<uint64_t>(*bytes);
  }
  return report;
}

/// Returns whether lost ranks are the job's own failure: not those that ended of themselves, whose
/// host or service is lost, or that follow from another failure.
bool IsOwnFailure(const EventFields& fields) {
  static constexpr std::string_view kNotOwn[] = {"exited", "service_unreachable", "reclaimed"};
  const std::string why = fields.Text("why");
  return !fields.Yes("follows") &&
         std::find(std::begin(kNotOwn), std::end(kNotOwn), why) == std::end(kNotOwn);
}

/// Returns the reason with this name; nullopt if there is none.
std::optional<SaveReason> ReasonNamed(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(SaveReason::kRequest); ++i) {
    if (NameOf(static_cast<SaveReason>(i)) == name) return static_cast<SaveReason>(i);
  }
  return std::nullopt;
}

/// Returns what a daemon has advised; nullopt for a reason that this one does not know.
std::optional<SaveMoment> AdvisedIn(const EventFields& fields, double now_seconds) {
  const std::optional<SaveReason> why = ReasonNamed(fields.Text("why"));
  if (!why.has_value()) return std::nullopt;
  return SaveMoment{.why = *why,
                    .fits = fields.Text("recommended_action") != "none",
                    .not_before_seconds = fields.Time("not_before").value_or(now_seconds),
                    .deadline_seconds = fields.Time("deadline").value_or(now_seconds)};
}

}  // namespace

bool SaysAnything(EventType type) {
  using enum EventType;
  static constexpr EventType kTypes[] = {
      kMaintenanceScheduled, kMaintenanceStarted, kMaintenanceCompleted, kCapacityReclaim,
      kCapacityWithdrawn,    kOfferChanged,       kCapacityForecast,     kHostFailing,
      kLinkDegraded,         kLinkRestored,       kDaemonRestarting,     kPriceChanged,
      kCheckpointSaved,      kCheckpointLost,     kCheckpointAdvised,    kRankLost};
  return std::find(std::begin(kTypes), std::end(kTypes), type) != std::end(kTypes);
}

SaveNews NewsIn(const Event& event, double now_seconds) {
  const EventFields fields(event.data);
  SaveNews news;
  switch (event.type) {
    case EventType::kMaintenanceScheduled: ReadMaintenance(fields, now_seconds, &news); break;
    case EventType::kMaintenanceStarted:
      news.ended = {"maintenance/" + fields.Text("maintenance")};
      break;
    case EventType::kMaintenanceCompleted:
      news.ended = {"maintenance/" + fields.Text("maintenance"),
                    "restart/" + fields.Text("maintenance"), IdOfRanks("failing", fields.Ranks())};
      break;
    case EventType::kCapacityReclaim:
      news.notice = NoticeOf(fields, SaveReason::kReclaim, "offer/" + fields.Text("offer"),
                             "deadline", now_seconds);
      break;
    case EventType::kCapacityWithdrawn: news.ended = {"offer/" + fields.Text("offer")}; break;
    case EventType::kOfferChanged: ReadOffer(fields, now_seconds, &news); break;
    case EventType::kCapacityForecast: ReadForecast(fields, now_seconds, &news); break;
    case EventType::kHostFailing:
      news.notice = NoticeOf(fields, SaveReason::kHostFailing, IdOfRanks("failing", fields.Ranks()),
                             "deadline", now_seconds);
      break;
    case EventType::kLinkDegraded:
    case EventType::kLinkRestored: ReadLink(event, now_seconds, &news); break;
    case EventType::kDaemonRestarting: ReadRestart(fields, now_seconds, &news); break;
    case EventType::kPriceChanged: ReadPrice(fields, now_seconds, &news); break;
    case EventType::kCheckpointSaved: news.saved = ReportOf(fields); break;
    case EventType::kCheckpointLost: news.lost = ReportOf(fields); break;
    case EventType::kCheckpointAdvised: news.advised = AdvisedIn(fields, now_seconds); break;
    case EventType::kRankLost: news.is_failure = IsOwnFailure(fields); break;
    default: break;
  }
  return news;
}

}  // namespace harmonaize::daemon

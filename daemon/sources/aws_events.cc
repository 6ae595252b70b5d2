#include "daemon/sources/aws_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "daemon/sources/bounded_json.h"
#include "daemon/sources/cloud_dates.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

struct AwsEventCode {
  std::string_view name;
  CloudNotice::Kind kind;
};

/// Maintenance of the system may reboot the host, so no code promises that processes go on.
constexpr std::array<AwsEventCode, 5> kAwsEventCodes = {
    {{"instance-reboot", CloudNotice::Kind::kMaintenance},
     {"system-reboot", CloudNotice::Kind::kMaintenance},
     {"system-maintenance", CloudNotice::Kind::kMaintenance},
     {"instance-retirement", CloudNotice::Kind::kReclaim},
     {"instance-stop", CloudNotice::Kind::kReclaim}}};

CloudNotice NoticeOfAws(CloudNotice::Kind kind) {
  CloudNotice notice;
  notice.source = "aws";
  notice.kind = kind;
  return notice;
}

std::optional<std::string> IsoTimeIn(const json& document, std::string_view name) {
  std::optional<std::string> time = TextIn(document, name);
  return time.has_value() && ParseIso8601Date(*time).has_value() ? time : std::nullopt;
}

// The time is part of the id: a host is interrupted again after it was stopped and started.
void ReadSpotAction(const json& document, PublishedNotices* published) {
  const std::optional<std::string> action = TextIn(document, "action");
  const std::optional<std::string> time = IsoTimeIn(document, "time");
  if (action != "terminate" && action != "stop" && action != "hibernate") {
    return published->Doubt("the spot action is not known");
  }
  CloudNotice notice = NoticeOfAws(CloudNotice::Kind::kReclaim);
  notice.text = fmt::format("spot interruption: {}", *action);
  if (!time.has_value()) {
    // The host goes, whenever that is.
    published->Doubt("the spot action has no time");
    notice.id = "spot-action";
    return published->Add({std::move(notice), true});
  }
  notice.id = "spot-action/" + *time;
  notice.not_before_seconds = ParseIso8601Date(*time);
  published->Add({std::move(notice)});
}

void ReadRebalance(const json& document, PublishedNotices* published) {
  const std::optional<std::string> time = IsoTimeIn(document, "noticeTime");
  if (!time.has_value()) return published->Doubt("the rebalance recommendation has no time");
  CloudNotice notice = NoticeOfAws(CloudNotice::Kind::kRiskOfReclaim);
  notice.id = "rebalance/" + *time;
  notice.text = "rebalance recommendation: a spot interruption has become more likely";
  published->Add({std::move(notice)});
}

void ReadScheduledEvent(const json& event, PublishedNotices* published) {
  const std::string name = TextIn(event, "Code").value_or("");
  const auto code = std::find_if(kAwsEventCodes.begin(), kAwsEventCodes.end(),
                                 [&](const AwsEventCode& one) { return one.name == name; });
  if (code == kAwsEventCodes.end()) {
    return published->Doubt(fmt::format("a scheduled event has the unknown code '{}'", name));
  }
  if (TextIn(event, "State") != "active") {
    return published->Doubt("a scheduled event has an unknown state");
  }
  CloudNotice notice = NoticeOfAws(code->kind);
  notice.id = TextIn(event, "EventId").value_or("");
  const std::string not_before = TextIn(event, "NotBefore").value_or("");
  notice.not_before_seconds = ParseAwsMaintenanceDate(not_before);
  if (!notice.not_before_seconds.has_value()) {
    published->Doubt(fmt::format("'{}' is no time that a scheduled event begins", not_before));
  }
  notice.text =
      fmt::format("{}, until {}: {}", name, TextIn(event, "NotAfter").value_or("an unknown time"),
                  TextIn(event, "Description").value_or(""));
  published->Add({std::move(notice)});
}

void ReadAwsSchedule(const json& document, PublishedNotices* published) {
  if (!document.is_array()) return published->Doubt("the scheduled events are no list");
  for (const json& event : document) ReadScheduledEvent(event, published);
}

// Old events fill the history; nobody needs those that are not understood.
void ReadAwsHistory(const json& document, PublishedNotices* published) {
  if (!document.is_array()) return published->Doubt("the history of events is no list");
  for (const json& event : document) {
    const std::optional<std::string> id = TextIn(event, "EventId");
    const std::optional<std::string> state = TextIn(event, "State");
    if (!id.has_value()) continue;
    if (state == "completed") published->ended[*id] = CloudNotice::State::kCompleted;
    if (state == "canceled") published->ended[*id] = CloudNotice::State::kWithdrawn;
  }
}

void ReadIfThere(const std::optional<std::string>& text, std::string_view what,
                 void (*read)(const json&, PublishedNotices*), PublishedNotices* published) {
  if (!text.has_value()) return;
  const Result<json> document = ParseBoundedJson(*text);
  if (document.ok()) return read(*document, published);
  published->Doubt(fmt::format("{}: {}", what, document.status().message()));
}

}  // namespace

PublishedNotices ReadAwsEvents(const AwsDocuments& documents) {
  PublishedNotices published;
  ReadIfThere(documents.spot_action, "spot/instance-action", ReadSpotAction, &published);
  ReadIfThere(documents.rebalance, "events/recommendations/rebalance", ReadRebalance, &published);
  ReadIfThere(documents.scheduled, "events/maintenance/scheduled", ReadAwsSchedule, &published);
  ReadIfThere(documents.history, "events/maintenance/history", ReadAwsHistory, &published);
  return published;
}

}  // namespace harmonaize::daemon

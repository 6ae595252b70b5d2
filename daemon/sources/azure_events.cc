#include "daemon/sources/azure_events.h"

#include <fmt/format.h>
#include <strings.h>

#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "daemon/sources/bounded_json.h"
#include "daemon/sources/cloud_dates.h"
#include "src/base/json_text.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

/// Longest duration of an event that is believed, in seconds: a month. Azure states a few seconds
/// for a Freeze, and -1 where it does not know.
constexpr int64_t kMostDurationSeconds = 31 * 86400;

struct AzureEventType {
  std::string_view name;
  CloudNotice::Kind kind;
  bool survives;
};

constexpr std::array<AzureEventType, 5> kAzureEventTypes = {
    {{"Freeze", CloudNotice::Kind::kMaintenance, true},
     {"Reboot", CloudNotice::Kind::kMaintenance, false},
     {"Redeploy", CloudNotice::Kind::kMaintenance, false},
     {"Preempt", CloudNotice::Kind::kReclaim, false},
     {"Terminate", CloudNotice::Kind::kReclaim, false}}};

/// Returns whether an event names the host; Azure's names do not tell capitals from small letters.
bool Concerns(const json& resources, const std::string& host) {
  return std::any_of(resources.begin(), resources.end(), [&](const json& one) {
    return one.is_string() &&
           strcasecmp(one.get_ref<const std::string&>().c_str(), host.c_str()) == 0;
  });
}

bool ReadAzureStatus(const json& event, CloudNotice* notice) {
  const std::optional<std::string> status = TextIn(event, "EventStatus");
  if (status == "Scheduled") notice->state = CloudNotice::State::kScheduled;
  if (status == "Started") notice->state = CloudNotice::State::kStarted;
  return status == "Scheduled" || status == "Started";
}

// An event whose time is not understood is passed on all the same: it counts more than its time.
void ReadAzureTimes(const json& event, CloudNotice* notice, PublishedNotices* published) {
  // The time is empty once the event has started.
  const std::string not_before = TextIn(event, "NotBefore").value_or("");
  notice->not_before_seconds = ParseRfc1123Date(not_before);
  if (!not_before.empty() && !notice->not_before_seconds.has_value()) {
    published->Doubt(fmt::format("'{}' is no time that an event begins", not_before));
  }
  const auto duration = event.find("DurationInSeconds");
  if (duration == event.end() || duration->is_null()) return;
  const int64_t seconds = duration->is_number_integer() ? duration->get<int64_t>() : -2;
  if (seconds >= 0 && seconds <= kMostDurationSeconds) {
    notice->duration_seconds = seconds;
  } else if (seconds != -1) {
    published->Doubt("an event has a duration that cannot be");
  }
}

void ReadAzureEvent(const json& event, const std::string& host, PublishedNotices* published) {
  const json* const resources = ListIn(event, "Resources");
  if (resources == nullptr) return published->Doubt("an event does not say what it concerns");
  if (!Concerns(*resources, host)) return;
  const std::string name = TextIn(event, "EventType").value_or("");
  const auto type = std::find_if(kAzureEventTypes.begin(), kAzureEventTypes.end(),
                                 [&](const AzureEventType& one) { return one.name == name; });
  if (type == kAzureEventTypes.end()) {
    return published->Doubt(fmt::format("an event has the unknown type '{}'", name));
  }
  CloudNotice notice;
  notice.source = "azure";
  notice.id = TextIn(event, "EventId").value_or("");
  notice.kind = type->kind;
  notice.survives = type->survives;
  notice.concerns_others = resources->size() != 1;
  if (!ReadAzureStatus(event, &notice)) return published->Doubt("an event has an unknown status");
  ReadAzureTimes(event, &notice, published);
  notice.text = fmt::format("{} by {}: {}", name, TextIn(event, "EventSource").value_or("Azure"),
                            TextIn(event, "Description").value_or(""));
  published->Add({std::move(notice)});
}

}  // namespace

Result<PublishedNotices> ReadAzureEvents(std::string_view document, const std::string& host) {
  HZ_ASSIGN_OR_RETURN(const json parsed, ParseBoundedJson(document));
  const json* const events = ListIn(parsed, "Events");
  if (events == nullptr || !parsed.contains("DocumentIncarnation") ||
      !parsed["DocumentIncarnation"].is_number_integer()) {
    return RemoteError("the document is not one of scheduled events");
  }
  PublishedNotices published;
  for (const json& event : *events) ReadAzureEvent(event, host, &published);
  return published;
}

std::string AzureApproval(const std::string& event_id) {
  return JsonText(json{{"StartRequests", json::array({{{"EventId", event_id}}})}});
}

}  // namespace harmonaize::daemon

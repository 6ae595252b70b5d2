#include "src/events/event.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <charconv>

#include <nlohmann/json.hpp>

#include "src/base/json_text.h"
#include "src/base/time_text.h"

namespace harmonaize {
namespace {

/// Stands for "" in ids, where nothing before the dot would look like a mistake.
constexpr std::string_view kHostName = "host";

bool IsUnreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.' || c == '~';
}

/// Returns whether a text is a JSON object in one line. A line can only end between values, since
/// texts within JSON have no control characters.
bool IsObjectInOneLine(std::string_view text) {
  return text.starts_with('{') && text.find_first_of("\r\n") == std::string_view::npos &&
         nlohmann::json::accept(text);
}

std::string SourceOf(const Event& event) {
  return event.job.empty() ? "/harmonaize/host" : "/harmonaize/jobs/" + event.job;
}

}  // namespace

std::string Event::id() const {
  return fmt::format("{}.{:016x}", job.empty() ? kHostName : std::string_view(job), unique);
}

bool IsJobId(std::string_view text) {
  return !text.empty() && text.size() <= kMostJobIdBytes && text != kHostName &&
         std::all_of(text.begin(), text.end(), IsUnreserved);
}

Status CheckEvent(const Event& event) {
  if (!event.job.empty() && !IsJobId(event.job)) {
    return InvalidArgument("an event's job is not an id of a job ({} bytes)", event.job.size());
  }
  if (event.sequence == 0 || event.sequence > kMostSequence) {
    return InvalidArgument("an event of {} has the number {}; numbers are 1 to {}", event.job,
                           event.sequence, kMostSequence);
  }
  if (event.subject.size() > kMostSubjectBytes) {
    return InvalidArgument("the subject of event {} has {} bytes, more than {}", event.id(),
                           event.subject.size(), kMostSubjectBytes);
  }
  if (event.tenant.size() > kMostTenantBytes) {
    return InvalidArgument("the tenant's name of event {} has {} bytes, more than {}", event.id(),
                           event.tenant.size(), kMostTenantBytes);
  }
  if (event.data.size() > kMostEventDataBytes) {
    return InvalidArgument("the data of event {} has {} bytes, more than {}", event.id(),
                           event.data.size(), kMostEventDataBytes);
  }
  return Status::Ok();
}

std::optional<EventId> ParseEventId(std::string_view id) {
  const size_t dot = id.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::string_view name = id.substr(0, dot);
  const std::string_view digits = id.substr(dot + 1);
  if (name != kHostName && !IsJobId(name)) return std::nullopt;
  // A number is written in one way only, so that two ids are never the same event.
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (digits.size() != 16 || !std::all_of(digits.begin(), digits.end(), is_digit)) {
    return std::nullopt;
  }
  EventId parsed{.job = name == kHostName ? std::string() : std::string(name)};
  std::from_chars(digits.data(), digits.data() + digits.size(), parsed.unique, 16);
  if (parsed.unique == 0) return std::nullopt;
  return parsed;
}

std::string ToCloudEvent(const Event& event) {
  const EventTypeInfo& info = InfoOf(event.type);
  nlohmann::ordered_json document = {
      {"specversion", "1.0"},
      {"id", event.id()},
      {"source", SourceOf(event)},
      {"type", fmt::format("{}{}", kEventTypePrefix, info.name)},
  };
  if (!event.subject.empty()) document["subject"] = event.subject;
  document["time"] = TimeText(event.time_ns);
  document["datacontenttype"] = "application/json";
  document["dataschema"] = DataSchemaOf(event.type);
  document["sequence"] = fmt::format("{:020}", event.sequence);
  document["severitynumber"] = static_cast<int>(event.severity);
  document["severitytext"] = SeverityName(event.severity);
  if (!event.tenant.empty()) document["tenant"] = event.tenant;
  if (event.expiry_ns) document["expirytime"] = TimeText(*event.expiry_ns);
  std::string text = JsonText(document);
  // The data goes in as it is: it was checked when it was made, and may be long.
  text.pop_back();
  text += ",\"data\":";
  text += IsObjectInOneLine(event.data) ? std::string_view(event.data) : "{}";
  text += '}';
  return text;
}

}  // namespace harmonaize

#include "daemon/ras/ras_event.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "daemon/ras/ras_command.h"
#include "src/base/json_text.h"
#include "src/events/event_type.h"

namespace harmonaize::daemon {
namespace {

using Ordered = nlohmann::ordered_json;

/// NCCL's names for what happens to ranks. All other events have names of ours.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kNcclNames = {{
    {"rank.lost", "PEER_DEAD"},
    {"rank.late", "PEER_UNRESPONSIVE"},
    {"rank.recovered", "PEER_RECOVERED"},
}};

/// What says that something comes or goes, as NCCL's lifecycle events do; all else is a trace.
constexpr std::array<std::string_view, 6> kLifecycle = {"rank.lost",    "host.",   "capacity.",
                                                        "maintenance.", "daemon.", "events."};

std::string NameFor(std::string_view type) {
  for (const auto& [ours, nccls] : kNcclNames) {
    if (type == ours) return std::string(nccls);
  }
  std::string name(type);
  std::transform(name.begin(), name.end(), name.begin(), [](char one) {
    return one == '.' ? '_' : static_cast<char>(one >= 'a' && one <= 'z' ? one - 'a' + 'A' : one);
  });
  return name;
}

unsigned GroupOf(std::string_view type) {
  const bool is_lifecycle =
      std::any_of(kLifecycle.begin(), kLifecycle.end(),
                  [type](std::string_view beginning) { return type.starts_with(beginning); });
  return is_lifecycle ? kRasLifecycle : kRasTrace;
}

/// Returns a field of an event's data; null where there is none.
Ordered FieldOf(const Ordered& event, const char* name) {
  const Ordered& data = event.contains("data") ? event["data"] : event;
  return data.is_object() && data.contains(name) ? data[name] : Ordered();
}

std::string Tell(std::string_view type, const Ordered& event, const RasWatch& watch,
                 const std::string& time) {
  if ((GroupOf(type) & watch.groups) == 0) return "";
  const Ordered said = FieldOf(event, "text");
  const std::string details = said.is_string() ? said.get<std::string>() : std::string();
  if (!watch.json) return fmt::format("[{}] {}: {}\n", time, NameFor(type), details);
  Ordered told = {{"timestamp", time},
                  {"group", GroupOf(type) == kRasLifecycle ? "LIFECYCLE" : "TRACE"},
                  {"event", NameFor(type)}};
  const Ordered ranks = FieldOf(event, "ranks");
  if (ranks.is_array()) told["ranks"] = ranks;
  told["details"] = details;
  return JsonText(told, 2) + "\n";
}

}  // namespace

std::string RasEventText(std::string_view text, const RasWatch& watch, const std::string& time) {
  constexpr std::string_view kEvent = "event: ";
  constexpr std::string_view kData = "data: ";
  std::string told;
  std::string_view type;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.starts_with(kEvent)) type = WithoutEventTypePrefix(line.substr(kEvent.size()));
    if (!line.starts_with(kData)) continue;
    const Ordered event = Ordered::parse(line.substr(kData.size()), nullptr, false);
    if (event.is_object()) told += Tell(type, event, watch, time);
  }
  return told;
}

std::string RasTimeText() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%F %T", &parts)};
}

}  // namespace harmonaize::daemon

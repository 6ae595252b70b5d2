#include "cli/events/event_line.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "cli/jobs/short_job_id.h"
#include "src/events/event.h"
#include "src/events/event_type.h"

namespace harmonaize {
namespace {

/// Widths of columns, in characters. Longer texts move the rest of their line to the right.
constexpr size_t kTimeWidth = 24;     // 2026-11-26T08:30:00.123Z
constexpr size_t kSeverityWidth = 8;  // the head's word
constexpr size_t kSubjectWidth = 20;  // "communicators/" and a short name
constexpr size_t kTenantWidth = 12;   // a user's name and number

constexpr std::string_view kJobSource = "/harmonaize/jobs/";

constexpr const char* kEndOfColour = "\033[0m";

const char* ColourOf(std::string_view severity) {
  if (severity == SeverityName(Severity::kWarning)) return "\033[33m";  // yellow
  if (severity == SeverityName(Severity::kError)) return "\033[31m";    // red
  if (severity == SeverityName(Severity::kFatal)) return "\033[1;31m";  // bold red
  return "";
}

size_t TypeWidth() {
  size_t width = 0;
  for (const EventTypeInfo& info : EventTypes()) width = std::max(width, info.name.size());
  return width;
}

struct Cell {
  std::string text;
  size_t width = 0;
  const char* colour = "";
};

/// Returns the cells in columns, and the text after them.
std::string Row(const std::vector<Cell>& cells, const std::string& text) {
  std::string row;
  for (const Cell& cell : cells) {
    const size_t blanks = cell.width - std::min(cell.width, cell.text.size()) + 2;
    const bool coloured = *cell.colour != '\0';
    row += cell.colour + cell.text + (coloured ? kEndOfColour : "") + std::string(blanks, ' ');
  }
  return row + text + "\n";
}

/// Returns the job that an event is about; "host" where it is about the host.
std::string JobColumn(const Json& event) {
  const std::string job = JobOfEvent(event);
  if (!job.empty()) return ShortJobId(job);
  return TextAt(event, "source") == kMissing ? kMissing : "host";
}

/// Returns the event's sentence, and behind it the id of what was announced.
std::string TextWithId(const Json& event) {
  const Json& data = At(event, "data");
  std::string text = TextAt(data, "text");
  for (const char* const field : {"maintenance", "offer"}) {
    const std::string id = TextAt(data, field);
    if (id != kMissing && !id.empty()) return text + " (" + id + ")";
  }
  return text;
}

/// Returns the time by which an event asks for something, in seconds since 1970; 0: it names none.
double DeadlineOf(const Json& event) {
  const Json& data = At(event, "data");
  for (const char* const field : {"deadline", "not_before"}) {
    const Json& time = At(data, field);
    tm parts{};
    if (time.is_string() && strptime(time.get_ref<const std::string&>().c_str(),
                                     "%Y-%m-%dT%H:%M:%S", &parts) != nullptr) {
      return static_cast<double>(timegm(&parts));
    }
  }
  return 0;
}

}  // namespace

std::string JobOfEvent(const Json& event) {
  const std::string source = TextAt(event, "source");
  return source.starts_with(kJobSource) ? source.substr(kJobSource.size()) : "";
}

std::string EventHead(const EventLineStyle& style) {
  std::vector<Cell> cells = {{"time", kTimeWidth},
                             {"severity", kSeverityWidth},
                             {"type", TypeWidth()},
                             {"job", kShortJobIdLength}};
  if (style.tenants) cells.push_back({"tenant", kTenantWidth});
  cells.push_back({"subject", kSubjectWidth});
  return Row(cells, "text");
}

std::string EventLine(const Json& event, const EventLineStyle& style) {
  const std::string severity = TextAt(event, "severitytext");
  std::vector<Cell> cells = {
      {MomentAt(event, "time", /*with_milliseconds=*/true), kTimeWidth},
      {severity, kSeverityWidth, style.colours ? ColourOf(severity) : ""},
      {std::string(WithoutEventTypePrefix(TextAt(event, "type"))), TypeWidth()},
      {JobColumn(event), kShortJobIdLength}};
  if (style.tenants) cells.push_back({TextAt(event, "tenant"), kTenantWidth});
  cells.push_back({TextAt(event, "subject"), kSubjectWidth});
  return Row(cells, TextWithId(event));
}

std::string AnswerLine(const Json& event, const EventLineStyle& style) {
  const std::optional<EventType> type = EventTypeNamed(TextAt(event, "type"));
  if (!type.has_value() || !CanBeAnswered(*type)) return "";
  if (style.tenants && TextAt(event, "tenant") != style.own_tenant) return "";
  const double deadline = DeadlineOf(event);
  if (deadline != 0 && deadline <= style.now_seconds) return "";
  const std::string id = TextAt(event, "id");
  const std::optional<EventId> parsed = ParseEventId(id);
  const bool is_known = TextAt(event, "time") <= style.known_until;
  if (is_known && !style.answerable.contains(id)) return "";
  // Nothing else than an id is offered to be pasted into a shell.
  if (!parsed.has_value() || parsed->job.empty()) return "";
  const char* const more = deadline == 0 ? "" : "  (or --extend ID --by 10min)";
  return fmt::format("    answer with: harmonaize events --acknowledge {}{}\n", id, more);
}

}  // namespace harmonaize

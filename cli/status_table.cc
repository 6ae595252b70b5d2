#include "cli/status_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace harmonaize {
namespace {

using Json = nlohmann::json;

constexpr char kUnknown[] = "-";

// The value of a key, or a null value: nothing here may throw, whatever the daemon sends.
const Json& At(const Json& object, const char* key) {
  static const Json kNothing;
  if (!object.is_object()) return kNothing;
  const auto found = object.find(key);
  return found == object.end() ? kNothing : *found;
}

const Json& ListAt(const Json& object, const char* key) {
  static const Json kEmpty = Json::array();
  const Json& value = At(object, key);
  return value.is_array() ? value : kEmpty;
}

// What a stranger wrote must not steer the terminal.
std::string Printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(),
      [](unsigned char letter) { return letter < 0x20 || letter == 0x7f; }, '?');
  return text;
}

std::string TextAt(const Json& object, const char* key) {
  const Json& value = At(object, key);
  if (value.is_string()) return Printable(value.get<std::string>());
  if (value.is_number_integer()) return value.dump();
  return kUnknown;
}

std::string BytesAt(const Json& object, const char* key) {
  const Json& value = At(object, key);
  return value.is_number_unsigned() ? HumanBytes(value.get<uint64_t>()) : kUnknown;
}

std::string DurationAt(const Json& object, const char* key) {
  const Json& value = At(object, key);
  return value.is_number() ? HumanDuration(value.get<double>()) : kUnknown;
}

// Columns as wide as their widest cell; the first ones are names and stand left, the rest right.
class Table {
 public:
  Table(std::vector<std::string> head, size_t left_columns) : left_columns_(left_columns) {
    rows_.push_back(std::move(head));
  }
  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  /// A line of its own under the row added last.
  void AddNote(std::string note) { notes_.push_back({rows_.size() - 1, std::move(note)}); }
  bool empty() const { return rows_.size() == 1; }

  void Print(std::string* text) const {
    std::vector<size_t> widths(rows_[0].size());
    for (const auto& row : rows_) {
      for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    for (size_t r = 0; r < rows_.size(); ++r) {
      PrintRow(rows_[r], widths, text);
      for (const auto& [row, note] : notes_) {
        if (row == r) fmt::format_to(std::back_inserter(*text), "    {}\n", note);
      }
    }
  }

 private:
  void PrintRow(const std::vector<std::string>& row, const std::vector<size_t>& widths,
                std::string* text) const {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      if (i > 0) line += "  ";
      line += i < left_columns_ ? fmt::format("{:<{}}", row[i], widths[i])
                                : fmt::format("{:>{}}", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    *text += line + "\n";
  }

  size_t left_columns_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::pair<size_t, std::string>> notes_;
};

std::string TenantName(const Json& tenant) {
  const std::string name = TextAt(tenant, "name");
  const std::string uid = TextAt(tenant, "uid");
  return name == kUnknown ? "uid " + uid : fmt::format("{} ({})", name, uid);
}

std::string WaitingNote(const Json& waiting) {
  std::string ranks;
  const Json& missing = ListAt(waiting, "missing_ranks");
  for (const Json& rank : missing) {
    if (!rank.is_number_integer()) continue;
    ranks += (ranks.empty() ? "" : ", ") + rank.dump();
  }
  return fmt::format("{} has waited {} for rank{} {}", TextAt(waiting, "operation"),
                     DurationAt(waiting, "for_seconds"), missing.size() == 1 ? "" : "s",
                     ranks.empty() ? kUnknown : ranks);
}

// What is on its way is no news, and what queues up behind a late rank is one piece of news.
constexpr double kWorthTellingSeconds = 1;
constexpr size_t kMostWaiting = 3;

std::vector<std::string> WaitingNotes(const Json& communicator) {
  std::vector<std::string> notes;
  size_t untold = 0;
  for (const Json& waiting : ListAt(communicator, "waiting")) {
    const Json& seconds = At(waiting, "for_seconds");
    if (!seconds.is_number() || seconds.get<double>() < kWorthTellingSeconds) continue;
    if (notes.size() < kMostWaiting) {
      notes.push_back(WaitingNote(waiting));
    } else {
      ++untold;
    }
  }
  if (untold > 0) notes.push_back(fmt::format("{} more wait; --json has all", untold));
  return notes;
}

Result<Json> Parse(std::string_view document) {
  Json json = Json::parse(document, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return RemoteError("the daemon's status is not a JSON object");
  return json;
}

}  // namespace

std::string HumanBytes(uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  const char* const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  // 999.5 would show as a fourth digit.
  while (value >= 999.5 && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.3g} {}", value, units[unit]);
}

std::string HumanDuration(double seconds) {
  const auto whole = static_cast<uint64_t>(std::clamp(seconds, 0.0, 1e15));
  const uint64_t minutes = whole / 60;
  const uint64_t hours = minutes / 60;
  if (minutes == 0) return fmt::format("{} s", whole);
  if (hours == 0) return fmt::format("{} min {} s", minutes, whole % 60);
  if (hours < 24) return fmt::format("{} h {} min", hours, minutes % 60);
  return fmt::format("{} d {} h", hours / 24, hours % 24);
}

Result<std::string> StatusTable(std::string_view document) {
  const Result<Json> json = Parse(document);
  if (!json.ok()) return json.status();
  const Json& daemon = At(*json, "daemon");
  std::string text = fmt::format("harmonaized {}, pid {}, up {}, {} workers, listening at {}\n",
                                 TextAt(daemon, "version"), TextAt(daemon, "pid"),
                                 DurationAt(daemon, "uptime_seconds"), TextAt(daemon, "workers"),
                                 TextAt(daemon, "socket"));

  Table tenants({"tenant", "sessions", "regions", "shared", "communicators", "operations", "bytes"},
                1);
  Table communicators({"communicator", "tenant", "state", "ranks", "operations", "bytes"}, 3);
  for (const Json& tenant : ListAt(*json, "tenants")) {
    const Json& own = ListAt(tenant, "communicators");
    tenants.Add({TenantName(tenant), TextAt(tenant, "sessions"), TextAt(tenant, "regions"),
                 BytesAt(tenant, "region_bytes"), std::to_string(own.size()),
                 TextAt(tenant, "operations"), BytesAt(tenant, "bytes")});
    for (const Json& communicator : own) {
      communicators.Add({TextAt(communicator, "id"), TenantName(tenant),
                         TextAt(communicator, "state"), TextAt(communicator, "ranks"),
                         TextAt(communicator, "operations"), BytesAt(communicator, "bytes")});
      for (std::string& note : WaitingNotes(communicator)) {
        communicators.AddNote(std::move(note));
      }
      if (At(communicator, "failure").is_string()) {
        communicators.AddNote(TextAt(communicator, "failure"));
      }
    }
  }
  if (tenants.empty()) return text + "\nno tenants\n";
  text += "\n";
  tenants.Print(&text);
  if (!communicators.empty()) {
    text += "\n";
    communicators.Print(&text);
  }
  return text;
}

Result<std::string> IndentJson(std::string_view document) {
  const Result<Json> json = Parse(document);
  if (!json.ok()) return json.status();
  // Replaces what is no UTF-8 instead of throwing.
  return json->dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace harmonaize

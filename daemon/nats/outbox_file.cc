#include "daemon/nats/outbox_file.h"

#include <unistd.h>

#include <cstddef>
#include <optional>
#include <string_view>

#include <nlohmann/json.hpp>

#include "daemon/config/private_file.h"
#include "src/base/json_text.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

constexpr const char* kName = "nats-outbox";

/// Largest file that is read, in bytes: what an outbox holds (EventOutbox::Limits), each byte of it
/// escaped, with room to spare.
constexpr size_t kMostBytes = size_t{512} << 20;

std::string LineOf(const EventOutbox::Entry& entry) {
  const json line = {{"tenant", entry.tenant},
                     {"subject", entry.subject},
                     {"id", entry.id},
                     {"content", entry.content}};
  return JsonText(line) + "\n";
}

std::optional<EventOutbox::Entry> EntryIn(std::string_view line) {
  const json read = ReadJson(line);
  if (!read.is_object()) return std::nullopt;
  const auto text = [&read](const char* name) -> std::string {
    const auto found = read.find(name);
    return found != read.end() && found->is_string() ? found->get<std::string>() : "";
  };
  const auto tenant = read.find("tenant");
  if (tenant == read.end() || !tenant->is_number_unsigned()) return std::nullopt;
  EventOutbox::Entry entry{.tenant = tenant->get<uint32_t>(),
                           .subject = text("subject"),
                           .id = text("id"),
                           .content = text("content")};
  if (entry.subject.empty() || entry.id.empty() || entry.content.empty()) return std::nullopt;
  return entry;
}

}  // namespace

std::string OutboxFile::path() const {
  return folder_ + "/" + kName;
}

Status OutboxFile::Save(const std::vector<EventOutbox::Entry>& entries) const {
  if (folder_.empty()) return InvalidUsage("the daemon has no folder for what outlives it");
  std::string text;
  for (const EventOutbox::Entry& entry : entries) text += LineOf(entry);
  return ReplacePrivateFile(folder_, kName, text);
}

Result<std::vector<EventOutbox::Entry>> OutboxFile::Load() const {
  std::vector<EventOutbox::Entry> entries;
  if (folder_.empty()) return entries;
  HZ_ASSIGN_OR_RETURN(const std::optional<std::string> text, ReadPrivateFile(path(), kMostBytes));
  std::string_view rest = text.has_value() ? std::string_view(*text) : std::string_view();
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    std::optional<EventOutbox::Entry> entry = EntryIn(rest.substr(0, end));
    if (!entry.has_value() || end == std::string_view::npos) {
      return SystemError("{} is damaged after {} events", path(), entries.size());
    }
    entries.push_back(std::move(*entry));
    rest.remove_prefix(end + 1);
  }
  return entries;
}

void OutboxFile::Remove() const {
  if (!folder_.empty()) unlink(path().c_str());
}

}  // namespace harmonaize::daemon

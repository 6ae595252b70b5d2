#include "src/events/event_filter.h"

#include <algorithm>

#include "src/base/clean_text.h"
#include "src/base/names.h"

namespace harmonaize {
namespace {

constexpr std::string_view kAllOfFamily = ".*";
/// Longest part of a text that errors quote, in bytes; it holds every name that exists twice over.
constexpr size_t kMostQuotedBytes = 64;

std::string_view Trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

bool NamesType(std::string_view name, const EventTypeInfo& info) {
  if (name == info.name) return true;
  return name.ends_with(kAllOfFamily) &&
         name.substr(0, name.size() - kAllOfFamily.size()) == info.family();
}

bool NamesAnyType(std::string_view name) {
  const auto named = [&](const EventTypeInfo& info) { return NamesType(name, info); };
  return std::any_of(EventTypes().begin(), EventTypes().end(), named);
}

Status UnknownType(std::string_view name) {
  if (name.empty()) return InvalidArgument("the list of types of events has an empty part");
  std::vector<std::string> families;
  std::vector<std::string_view> known;
  for (const EventTypeInfo& info : EventTypes()) {
    known.push_back(info.name);
    std::string family = std::string(info.family()).append(kAllOfFamily);
    if (families.empty() || families.back() != family) families.push_back(std::move(family));
  }
  known.insert(known.end(), families.begin(), families.end());
  const std::string quoted = CleanText(name, kMostQuotedBytes);
  return InvalidArgument("there is no type of events '{}'{}", quoted, DidYouMean(quoted, known));
}

}  // namespace

bool EventFilter::Takes(const Event& event) const {
  if (event.severity < least_severity) return false;
  if (!job.empty() && job != event.job) return false;
  const EventTypeInfo& info = InfoOf(event.type);
  const auto named = [&](const std::string& name) { return NamesType(name, info); };
  return types.empty() || std::any_of(types.begin(), types.end(), named);
}

Result<std::vector<std::string>> ParseEventTypes(std::string_view text) {
  std::vector<std::string> types;
  if (Trimmed(text).empty()) return types;
  bool all = false;
  for (bool more = true; more;) {
    const size_t comma = text.find(',');
    const std::string_view name = WithoutEventTypePrefix(Trimmed(text.substr(0, comma)));
    more = comma != std::string_view::npos;
    if (more) text.remove_prefix(comma + 1);
    if (name == "*") {
      all = true;
      continue;
    }
    if (!NamesAnyType(name)) return UnknownType(name);
    // Each name once, so that no list is longer than there are names.
    if (std::find(types.begin(), types.end(), name) == types.end()) types.emplace_back(name);
  }
  if (all) types.clear();
  return types;
}

}  // namespace harmonaize

#include "daemon/events/event_cursor.h"

#include <fmt/format.h>

#include <charconv>

#include "src/events/event.h"

namespace harmonaize::daemon {
namespace {

/// Takes the part of `*text` before the next '-', and both off. Returns nullopt without a '-'.
std::optional<std::string_view> TakePart(std::string_view* text) {
  const size_t dash = text->find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const std::string_view part = text->substr(0, dash);
  text->remove_prefix(dash + 1);
  return part;
}

std::optional<uint64_t> ParseNumber(std::string_view text) {
  uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || number > kMostSequence) return std::nullopt;
  return number;
}

}  // namespace

std::string EventCursor::text() const {
  return tag.empty() ? event_id : fmt::format("{}@{}-{}-{}", event_id, tag, place, sequence);
}

std::optional<EventCursor> ParseEventCursor(std::string_view text) {
  const size_t at = text.find('@');
  EventCursor cursor{.event_id = std::string(text.substr(0, at)), .tag = ""};
  const bool names_place_alone = at == 0;
  if (!names_place_alone && !ParseEventId(cursor.event_id).has_value()) return std::nullopt;
  if (at == std::string_view::npos) return cursor;
  std::string_view rest = text.substr(at + 1);
  const std::optional<std::string_view> tag = TakePart(&rest);
  const std::optional<std::string_view> place = TakePart(&rest);
  if (!tag.has_value() || tag->empty() || !place.has_value()) return std::nullopt;
  const std::optional<uint64_t> place_number = ParseNumber(*place);
  const std::optional<uint64_t> sequence = ParseNumber(rest);
  if (!place_number.has_value() || !sequence.has_value()) return std::nullopt;
  cursor.tag = *tag;
  cursor.place = *place_number;
  cursor.sequence = *sequence;
  return cursor;
}

}  // namespace harmonaize::daemon

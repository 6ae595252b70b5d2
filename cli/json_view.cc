#include "cli/json_view.h"

#include <fmt/format.h>

#include "cli/human_units.h"
#include "src/base/clean_text.h"
#include "src/base/json_text.h"

namespace harmonaize {
namespace {

// Cleans a stranger's text, which must not steer the terminal.
std::string Printable(const std::string& text) {
  // Each byte may become one U+FFFD, of three bytes.
  return CleanText(text, 3 * text.size());
}

}  // namespace

Result<Json> ParseDocument(std::string_view text) {
  Json json = ReadJson(text);
  if (!json.is_object()) return RemoteError("the daemon's answer is not a JSON object");
  return json;
}

Result<std::string> IndentJson(std::string_view document) {
  HZ_ASSIGN_OR_RETURN(const Json json, ParseDocument(document));
  // Replaces bytes that are not UTF-8 instead of throwing.
  return JsonText(json, 2) + "\n";
}

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

std::string TextOf(const Json& value) {
  if (value.is_string()) return Printable(value.get<std::string>());
  if (value.is_number_integer()) return JsonText(value);
  return kMissing;
}

std::string TextAt(const Json& object, const char* key) {
  return TextOf(At(object, key));
}

std::string BytesAt(const Json& object, const char* key) {
  const Json& value = At(object, key);
  return value.is_number_unsigned() ? HumanBytes(value.get<uint64_t>()) : kMissing;
}

std::string TimeAt(const Json& object, const char* key) {
  const Json& value = At(object, key);
  return value.is_number() ? HumanTime(value.get<double>()) : kMissing;
}

std::string PercentAt(const Json& object, const char* key) {
  const Json& part = At(object, key);
  return part.is_number() ? fmt::format("{:.0f}%", 100 * part.get<double>()) : kMissing;
}

std::string DurationAt(const Json& object, const char* key) {
  const Json& value = At(object, key);
  return value.is_number() ? HumanDuration(value.get<double>()) : kMissing;
}

std::string MomentAt(const Json& object, const char* key, bool with_milliseconds) {
  constexpr size_t kSecondsLength = std::string_view("2026-11-26T08:30:00").size();
  constexpr size_t kFractionLength = 4;  // ".123"
  std::string text = TextAt(object, key);
  if (text.size() <= kSecondsLength + kFractionLength || text[kSecondsLength] != '.' ||
      text.back() != 'Z') {
    return text;
  }
  text.resize(kSecondsLength + (with_milliseconds ? kFractionLength : 0));
  return text + "Z";
}

uint64_t CountAt(const Json& object, const char* key) {
  const Json& value = At(object, key);
  return value.is_number_unsigned() ? value.get<uint64_t>() : 0;
}

bool YesAt(const Json& object, const char* key) {
  const Json& value = At(object, key);
  return value.is_boolean() && value.get<bool>();
}

}  // namespace harmonaize

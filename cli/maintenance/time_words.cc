#include "cli/maintenance/time_words.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

#include "src/base/wall_clock.h"

namespace harmonaize {
namespace {

struct Unit {
  std::string_view name;
  double seconds;
};
constexpr Unit kUnits[] = {{"s", 1},        {"min", 60},    {"m", 60},       {"h", 3600},
                           {"d", 86400},    {"hour", 3600}, {"day", 86400},  {"minute", 60},
                           {"second", 1},   {"sec", 1},     {"hours", 3600}, {"days", 86400},
                           {"minutes", 60}, {"seconds", 1}};

/// Forms in which people write a moment, without the offset behind it.
constexpr const char* kForms[] = {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S",
                                  "%Y-%m-%d %H:%M"};

/// Largest offset from UTC, in hours, that any place has: Kiribati's 14.
constexpr int kMostOffsetHours = 14;

std::string TextOfMoment(time_t moment) {
  tm parts{};
  gmtime_r(&moment, &parts);
  char text[32] = {};
  strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

/// Reads a number with its unit from the front of `word`, and removes it. Returns nullopt if there
/// is none.
std::optional<double> TakePart(std::string_view* word) {
  const size_t end = std::min(word->find_first_not_of("0123456789."), word->size());
  const std::string number(word->substr(0, end));
  char* stop = nullptr;
  const double value = std::strtod(number.c_str(), &stop);
  if (number.empty() || *stop != '\0') return std::nullopt;
  word->remove_prefix(end);
  while (word->starts_with(' ')) word->remove_prefix(1);
  const size_t letters = std::min(word->find_first_of("0123456789. "), word->size());
  for (const Unit& unit : kUnits) {
    if (word->substr(0, letters) != unit.name) continue;
    word->remove_prefix(letters);
    while (word->starts_with(' ')) word->remove_prefix(1);
    return value * unit.seconds;
  }
  return std::nullopt;
}

/// Returns the seconds by which the place of an offset such as "Z", "+02:00", "-0530" or "+02" is
/// ahead of UTC; "" is UTC, too. Returns nullopt for anything else.
std::optional<int64_t> SecondsOfOffset(std::string_view offset) {
  if (offset.starts_with(' ')) offset.remove_prefix(1);
  if (offset.empty() || offset == "Z" || offset == "z" || offset == "UTC") return 0;
  const char sign = offset.front();
  std::string digits(offset.substr(1));
  if (digits.size() == 5 && digits[2] == ':') digits.erase(2, 1);
  if (digits.size() == 2) digits += "00";
  if ((sign != '+' && sign != '-') || digits.size() != 4 ||
      digits.find_first_not_of("0123456789") != std::string::npos) {
    return std::nullopt;
  }
  const int hours = std::stoi(digits.substr(0, 2));
  const int minutes = std::stoi(digits.substr(2));
  if (hours > kMostOffsetHours || minutes > 59) return std::nullopt;
  const int64_t seconds = hours * 3600 + minutes * 60;
  return sign == '-' ? -seconds : seconds;
}

}  // namespace

bool IsNumberAlone(std::string_view word) {
  return !word.empty() && word.find_first_not_of("0123456789.") == std::string_view::npos;
}

Result<double> SecondsInWord(std::string_view word, double most_seconds) {
  std::string_view rest = word;
  double seconds = 0;
  bool is_good = !rest.empty();
  while (is_good && !rest.empty()) {
    const std::optional<double> part = TakePart(&rest);
    is_good = part.has_value();
    seconds += part.value_or(0);
  }
  if (is_good && seconds <= most_seconds) return seconds;
  if (is_good) {
    return InvalidArgument("'{}' is more than {:.0f} days, which is the longest time possible here",
                           word, most_seconds / 86400);
  }
  if (IsNumberAlone(word)) {
    return InvalidArgument("{} what? A time has a unit, such as {}s, {}min or {}h", word, word,
                           word, word);
  }
  return InvalidArgument("'{}' is no time, such as 90s, 10min, 1h30m, 1.5h or 2d", word);
}

Result<std::string> MomentInWord(std::string_view word) {
  const std::string text(word);
  for (const char* const form : kForms) {
    tm parts{};
    const char* const end = strptime(text.c_str(), form, &parts);
    if (end == nullptr) continue;
    const std::optional<int64_t> offset = SecondsOfOffset(end);
    // strptime takes dates that do not exist, such as February 30.
    const tm asked = parts;
    const time_t moment = timegm(&parts);
    if (offset.has_value() && parts.tm_mday == asked.tm_mday) return TextOfMoment(moment - *offset);
  }
  return InvalidArgument(
      "'{}' is no moment, such as 2026-12-01T02:00:00Z, 2026-12-01T04:00+02:00 or '2026-12-01 "
      "02:00' "
      "(UTC)",
      word);
}

std::string MomentIn(double seconds) {
  return TextOfMoment(static_cast<time_t>(std::ceil(UnixSeconds() + seconds)));
}

std::string CheckSecondsWord(const std::string& word) {
  return SecondsInWord(word).status().message();
}

std::string CheckMoreTimeWord(const std::string& word) {
  return SecondsInWord(word, kMostMoreSeconds).status().message();
}

std::string CheckMomentWord(const std::string& word) {
  if (word == kUnknownMoment) return {};
  return MomentInWord(word).status().message();
}

}  // namespace harmonaize

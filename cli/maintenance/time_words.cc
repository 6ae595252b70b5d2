#include "cli/maintenance/time_words.h"

#include <fmt/format.h>
#include <time.h>

#include <cmath>
#include <cstdlib>

#include "src/base/wall_clock.h"

namespace harmonaize {
namespace {

struct Unit {
  std::string_view name;
  double seconds;
};
constexpr Unit kUnits[] = {{"", 1},         {"s", 1},        {"min", 60},   {"m", 60},
                           {"h", 3600},     {"d", 86400},    {"sec", 1},    {"hours", 3600},
                           {"days", 86400}, {"minutes", 60}, {"seconds", 1}};

/// Forms in which people write a moment. All are in UTC.
constexpr const char* kForms[] = {"%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%MZ", "%Y-%m-%d %H:%M:%S",
                                  "%Y-%m-%d %H:%M"};

std::string TextOfMoment(time_t moment) {
  tm parts{};
  gmtime_r(&moment, &parts);
  char text[32] = {};
  strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace

Result<double> SecondsInWord(std::string_view word) {
  const size_t end = std::min(word.find_first_not_of("0123456789."), word.size());
  const std::string number(word.substr(0, end));
  std::string_view rest = word.substr(end);
  while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  char* stop = nullptr;
  const double value = std::strtod(number.c_str(), &stop);
  const bool is_number = !number.empty() && *stop == '\0';
  for (const Unit& unit : kUnits) {
    const double seconds = value * unit.seconds;
    if (is_number && rest == unit.name && seconds <= kMostWordSeconds) return seconds;
  }
  return InvalidArgument("'{}' is no time of up to a year, such as 90s, 10min, 1.5h or 2d", word);
}

Result<std::string> MomentInWord(std::string_view word) {
  const std::string text(word);
  for (const char* const form : kForms) {
    tm parts{};
    const char* const end = strptime(text.c_str(), form, &parts);
    if (end != nullptr && *end == '\0') return TextOfMoment(timegm(&parts));
  }
  return InvalidArgument("'{}' is no moment in UTC, such as 2026-12-01T02:00:00Z", word);
}

std::string MomentIn(double seconds) {
  return TextOfMoment(static_cast<time_t>(std::ceil(UnixSeconds() + seconds)));
}

std::string CheckSecondsWord(const std::string& word) {
  return SecondsInWord(word).status().message();
}

std::string CheckMomentWord(const std::string& word) {
  return MomentInWord(word).status().message();
}

}  // namespace harmonaize

#include "src/base/time_text.h"

#include <fmt/format.h>

#include <cstdio>
#include <ctime>

namespace harmonaize {
namespace {

constexpr int64_t kNanosecondsPerSecond = 1'000'000'000;

}  // namespace

std::string TimeText(int64_t unix_ns) {
  // Rounded down, so that a time before 1970 has positive microseconds as well.
  int64_t seconds = unix_ns / kNanosecondsPerSecond;
  int64_t rest_ns = unix_ns % kNanosecondsPerSecond;
  if (rest_ns < 0) {
    rest_ns += kNanosecondsPerSecond;
    --seconds;
  }
  const auto clock = static_cast<time_t>(seconds);
  tm parts{};
  gmtime_r(&clock, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     rest_ns / 1000);
}

std::optional<int64_t> UnixNanosecondsOf(const std::string& text) {
  tm parts{};
  int microseconds = 0;
  int end = 0;
  const int read = std::sscanf(text.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d.%6dZ%n", &parts.tm_year,
                               &parts.tm_mon, &parts.tm_mday, &parts.tm_hour, &parts.tm_min,
                               &parts.tm_sec, &microseconds, &end);
  parts.tm_year -= 1900;
  parts.tm_mon -= 1;
  const int64_t ns = timegm(&parts) * kNanosecondsPerSecond + microseconds * int64_t{1000};
  // Only one text stands for a time. What is no time, or an odd form of one, comes out differently.
  if (read != 7 || static_cast<size_t>(end) != text.size() || TimeText(ns) != text) {
    return std::nullopt;
  }
  return ns;
}

}  // namespace harmonaize

#include "src/base/time_text.h"

#include <fmt/format.h>

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

}  // namespace harmonaize

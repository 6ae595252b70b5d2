#include "cli/human_units.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>

namespace harmonaize {
namespace {

// Returns three digits in the first of the units, each a thousand times the one before, that fits.
std::string InThousands(double value, std::span<const char* const> units) {
  size_t unit = 0;
  // 999.5 would show as a fourth digit.
  while (value >= 999.5 && unit + 1 < units.size()) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.3g} {}", value, units[unit]);
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

std::string HumanTime(double seconds) {
  const char* const units[] = {"ns", "us", "ms", "s"};
  return InThousands(seconds * 1e9, units);
}

std::string HumanRate(double bytes_per_second) {
  const char* const units[] = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"};
  return InThousands(bytes_per_second, units);
}

}  // namespace harmonaize

#include "src/base/measure.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <span>

namespace harmonaize {
namespace {

struct Unit {
  std::string_view name;
  double value;
  bool is_written = true;  ///< Whether FormatMeasure uses it.
};

// Ascending in those that are written.
constexpr Unit kDurations[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1},
                               {"min", 60},  {"h", 3600},  {"d", 86400}};

constexpr double kKibi = 1024;
constexpr double kMebi = kKibi * kKibi;
constexpr double kGibi = kMebi * kKibi;
constexpr double kTebi = kGibi * kKibi;

constexpr Unit kRates[] = {{"B/s", 1},
                           {"kB/s", 1e3},
                           {"MB/s", 1e6},
                           {"GB/s", 1e9},
                           {"TB/s", 1e12},
                           {"bit/s", 1.0 / 8, false},
                           {"kbit/s", 1e3 / 8, false},
                           {"Mbit/s", 1e6 / 8, false},
                           {"Gbit/s", 1e9 / 8, false},
                           {"Tbit/s", 1e12 / 8, false},
                           {"KiB/s", kKibi, false},
                           {"MiB/s", kMebi, false},
                           {"GiB/s", kGibi, false},
                           {"TiB/s", kTebi, false}};

constexpr Unit kSizes[] = {{"B", 1},
                           {"KiB", kKibi},
                           {"MiB", kMebi},
                           {"GiB", kGibi},
                           {"TiB", kTebi},
                           {"K", kKibi, false},
                           {"M", kMebi, false},
                           {"G", kGibi, false},
                           {"T", kTebi, false},
                           {"kB", 1e3, false},
                           {"MB", 1e6, false},
                           {"GB", 1e9, false},
                           {"TB", 1e12, false}};

struct Vocabulary {
  std::span<const Unit> units;
  const char* expected;
};

Vocabulary VocabularyOf(Measure measure) {
  switch (measure) {
    case Measure::kDuration:
      return {kDurations, "a duration: a number and ns, us, ms, s, min, h or d, as in \"30 s\""};
    case Measure::kRate:
      return {kRates, "a rate: a number and B/s, kB/s, MB/s, GB/s or Gbit/s, as in \"2 GB/s\""};
    case Measure::kSize: break;
  }
  return {kSizes, "a size: a number and B, KiB, MiB, GiB or TiB, as in \"64 MiB\""};
}

}  // namespace

Result<double> ParseMeasure(Measure measure, std::string_view text) {
  const Vocabulary vocabulary = VocabularyOf(measure);
  const Status wrong = InvalidArgument("\"{}\" is not {}", text, vocabulary.expected);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  // A number may also be read as infinite, or as no number.
  if (error != std::errc() || !std::isfinite(number) || std::signbit(number)) return wrong;
  std::string_view name = text.substr(static_cast<size_t>(end - text.data()));
  if (name.starts_with(' ')) name.remove_prefix(1);
  for (const Unit& unit : vocabulary.units) {
    if (name != unit.name) continue;
    const double value = number * unit.value;
    if (!std::isfinite(value)) return wrong;
    return value;
  }
  return wrong;
}

std::string FormatMeasure(Measure measure, double value) {
  const std::span<const Unit> units = VocabularyOf(measure).units;
  const Unit* chosen = &units.front();
  for (const Unit& unit : units) {
    if (unit.is_written && value >= unit.value) chosen = &unit;
  }
  if (value == 0 && measure == Measure::kDuration) return "0 s";
  return fmt::format("{:.6g} {}", value / chosen->value, chosen->name);
}

}  // namespace harmonaize

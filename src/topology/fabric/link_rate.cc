#include "src/topology/fabric/link_rate.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <utility>

namespace harmonaize {
namespace {

constexpr double kBitsPerByte = 8;
constexpr double kLeastBits = 1e3;
constexpr double kMostBits = 1e14;

constexpr std::array<std::pair<std::string_view, double>, 5> kUnits = {
    {{"bit", 1}, {"kbit", 1e3}, {"Mbit", 1e6}, {"Gbit", 1e9}, {"Tbit", 1e12}}};

bool SameLetters(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

}  // namespace

Result<double> ParseLinkRate(std::string_view text) {
  const Status wrong = InvalidArgument(
      "'{}' is no rate; write a number and a unit (bit, kbit, Mbit, Gbit or Tbit), as in "
      "\"500Mbit\", from 1kbit to 100Tbit",
      text);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return wrong;
  std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  if (unit.ends_with("/s")) unit.remove_suffix(2);
  for (const auto& [name, bits] : kUnits) {
    if (!SameLetters(unit, name)) continue;
    const double rate = number * bits;
    // Written so that a NaN is rejected, too.
    if (!(rate >= kLeastBits && rate <= kMostBits)) return wrong;
    return rate / kBitsPerByte;
  }
  return wrong;
}

std::string FormatLinkRate(double bytes_per_second) {
  const double bits = bytes_per_second * kBitsPerByte;
  auto unit = kUnits.begin();
  while (unit + 1 != kUnits.end() && bits >= (unit + 1)->second) ++unit;
  return fmt::format("{:.4g}{}", bits / unit->second, unit->first);
}

}  // namespace harmonaize

#include "cli/top/growth.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/human_units.h"

namespace harmonaize {

double Growth(const Json& before, const Json& after, const char* key) {
  const Json& from = At(before, key);
  const Json& to = At(after, key);
  if (!to.is_number()) return -1;
  const double start = from.is_number() ? from.get<double>() : 0;
  return std::max(to.get<double>() - start, 0.0);
}

std::string RateOf(const Json& before, const Json& after, const char* key, double seconds) {
  const double growth = Growth(before, after, key);
  return growth < 0 ? kMissing : HumanRate(growth / seconds);
}

std::string ShareOf(double part, double whole) {
  if (part < 0 || whole < 0) return kMissing;
  return whole == 0 ? "0%" : fmt::format("{:.3g}%", 100 * std::min(part / whole, 1.0));
}

}  // namespace harmonaize

#include "perf/opportunities/times.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace harmonaize::opportunities {
namespace {

/// The quantile of sorted durations that leaves this fraction below it.
double QuantileOf(const std::vector<double>& sorted, double fraction) {
  const auto rank = static_cast<size_t>(std::ceil(fraction * static_cast<double>(sorted.size())));
  return sorted[std::clamp<size_t>(rank, 1, sorted.size()) - 1];
}

}  // namespace

double Times::Quantile(double fraction) const {
  if (seconds_.empty()) return 0;
  std::vector<double> sorted = seconds_;
  std::sort(sorted.begin(), sorted.end());
  return QuantileOf(sorted, fraction);
}

nlohmann::ordered_json Times::Summary() const {
  nlohmann::ordered_json summary = {{"count", seconds_.size()}};
  if (seconds_.empty()) return summary;
  std::vector<double> sorted = seconds_;
  std::sort(sorted.begin(), sorted.end());
  const auto count = static_cast<double>(sorted.size());
  summary["mean"] = std::accumulate(sorted.begin(), sorted.end(), 0.0) / count;
  summary["p50"] = QuantileOf(sorted, 0.5);
  // A quantile needs at least one duration beyond it, or it is the longest one under another name.
  for (const auto& [name, fraction] : {std::pair{"p99", 0.99}, std::pair{"p999", 0.999}}) {
    if ((1 - fraction) * count >= 1) {
      summary[name] = QuantileOf(sorted, fraction);
    } else {
      summary[name] = nullptr;
    }
  }
  summary["longest"] = sorted.back();
  return summary;
}

}  // namespace harmonaize::opportunities

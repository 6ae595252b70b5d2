#include "daemon/checkpoint_advice/save_interval.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "daemon/checkpoint_advice/save_times.h"

namespace harmonaize::daemon {
namespace {

/// Returns a time in seconds, or a rate, within sound bounds.
double WithinBounds(double value, double most) {
  return std::isfinite(value) ? std::clamp(value, 0.0, most) : (value > 0 ? most : 0);
}

/// The highest hazard that counts, in failures a second: a job that fails every second never saves.
constexpr double kMostHazard = 1;

/// Lowers or raises the interval to a bound, and notes which it was.
void Bound(double seconds, IntervalBound bound, bool raises, SaveInterval* interval) {
  const bool is_bound = raises ? interval->seconds < seconds : interval->seconds > seconds;
  if (!is_bound) return;
  interval->seconds = seconds;
  interval->bound = bound;
}

/// Returns the shortest interval with which stalls take no more than the cap.
double LeastByCap(double stall, double cap) {
  if (stall <= 0) return 0;
  if (cap <= 0) return kMostSaveIntervalSeconds;
  return std::min(stall * (1 - cap) / cap, kMostSaveIntervalSeconds);
}

void Choose(const IntervalView& view, double stall, double safe, double optimum,
            SaveInterval* interval) {
  if (view.interval_seconds.has_value()) {
    interval->seconds = std::max(*view.interval_seconds, 1.0);
    interval->bound = IntervalBound::kStated;
    return;
  }
  interval->seconds = optimum;
  Bound(kMostSaveIntervalSeconds, IntervalBound::kMost, false, interval);
  if (view.most_lost_seconds.has_value()) {
    Bound(*view.most_lost_seconds - safe, IntervalBound::kMostLost, false, interval);
  }
  if (view.overhead_cap.has_value()) {
    Bound(LeastByCap(stall, *view.overhead_cap), IntervalBound::kCap, true, interval);
  }
  Bound(safe, IntervalBound::kSaveTime, true, interval);
  const double least = std::max(WithinBounds(view.least_seconds, kMostSaveIntervalSeconds), 1.0);
  Bound(least, IntervalBound::kLeast, true, interval);
}

}  // namespace

double WeightOf(SaveImportance importance) {
  switch (importance) {
    case SaveImportance::kLow: return 0.5;
    case SaveImportance::kNormal: return 1;
    case SaveImportance::kHigh: return 2;
  }
  return 1;
}

std::string_view NameOf(IntervalBound bound) {
  switch (bound) {
    case IntervalBound::kOptimum: return "optimum";
    case IntervalBound::kStated: return "stated";
    case IntervalBound::kMostLost: return "most_lost_work";
    case IntervalBound::kCap: return "overhead_cap";
    case IntervalBound::kSaveTime: return "save_time";
    case IntervalBound::kLeast: return "least";
    case IntervalBound::kMost: return "most";
  }
  return "";
}

double YoungInterval(double stall_seconds, double mtbf_seconds) {
  if (stall_seconds <= 0) return 0;
  return std::sqrt(2 * stall_seconds * mtbf_seconds);
}

// From stalls of twice the time between failures on, the series does not hold, and Daly takes the
// time between failures.
double DalyInterval(double stall_seconds, double mtbf_seconds) {
  if (stall_seconds <= 0) return 0;
  if (!std::isfinite(mtbf_seconds)) return std::numeric_limits<double>::infinity();
  if (stall_seconds >= 2 * mtbf_seconds) return mtbf_seconds;
  const double part = stall_seconds / (2 * mtbf_seconds);
  return YoungInterval(stall_seconds, mtbf_seconds) * (1 + std::sqrt(part) / 3 + part / 9) -
         stall_seconds;
}

// A weight of lost work acts as so many times as many failures.
SaveInterval IntervalOf(const IntervalView& view) {
  const double stall = WithinBounds(view.stall_seconds, kMostSaveSeconds);
  const double safe = std::max(stall, WithinBounds(view.safe_seconds, kMostSaveSeconds));
  const double hazard = WithinBounds(view.hazard_per_second * view.weight, kMostHazard);
  SaveInterval interval;
  const double mtbf = hazard > 0 ? 1 / hazard : std::numeric_limits<double>::infinity();
  const double optimum = DalyInterval(stall, mtbf);
  interval.optimum_seconds = std::min(optimum, kMostSaveIntervalSeconds);
  Choose(view, stall, safe, optimum, &interval);
  interval.overhead = stall / (interval.seconds + stall);
  interval.expected_lost_seconds = interval.seconds / 2 + safe;
  interval.worst_lost_seconds = interval.seconds + safe;
  interval.keeps_most_lost =
      !view.most_lost_seconds.has_value() || interval.worst_lost_seconds <= *view.most_lost_seconds;
  // Rounding alone breaks no cap.
  constexpr double kRounding = 1e-9;
  interval.keeps_cap =
      !view.overhead_cap.has_value() || interval.overhead <= *view.overhead_cap + kRounding;
  return interval;
}

}  // namespace harmonaize::daemon

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "daemon/checkpoint_advice/hazard.h"

namespace harmonaize::daemon {

/// Bounds of intervals that are advised, in seconds. The least, where the provider's policy names
/// no other, keeps events apart that a program has to hear; the most is a day, since an estimate of
/// hardly any failures is no promise.
inline constexpr double kLeastSaveIntervalSeconds = 10;
inline constexpr double kMostSaveIntervalSeconds = 86400;

/// What lost work weighs against time that checkpoints take.
enum class SaveImportance : uint8_t { kLow, kNormal, kHigh };
/// Returns 0.5, 1 or 2: how many seconds of stalls are worth a second of lost work.
double WeightOf(SaveImportance importance);

/// From what an interval between checkpoints follows.
struct IntervalView {
  double stall_seconds = 0;      ///< SaveEstimate::stall_seconds.
  double safe_seconds = 0;       ///< After what time a checkpoint is most likely safe.
  double hazard_per_second = 0;  ///< Failures of the job.
  double weight = 1;             ///< WeightOf.
  /// The shortest interval that is advised: the policy's least_checkpoint_interval.
  double least_seconds = kLeastSaveIntervalSeconds;
  // What the tenant has stated.
  std::optional<double> interval_seconds = {};
  std::optional<double> most_lost_seconds = {};
  std::optional<double> overhead_cap = {};  ///< Part of the time that checkpoints may take.
};

/// What an interval follows from most.
enum class IntervalBound : uint8_t {
  kOptimum,   ///< The least time lost in all.
  kStated,    ///< The tenant has stated the interval.
  kMostLost,  ///< What a failure may cost.
  kCap,       ///< What checkpoints may take.
  kSaveTime,  ///< How long a checkpoint takes: the next one waits for it.
  kLeast,     ///< IntervalView::least_seconds.
  kMost,      ///< kMostSaveIntervalSeconds.
};
/// Returns "optimum", "stated", "most_lost_work", "overhead_cap", "save_time", "least" or "most".
std::string_view NameOf(IntervalBound bound);

/// How long a job works between two checkpoints.
struct SaveInterval {
  double seconds = 0;
  IntervalBound bound = IntervalBound::kOptimum;
  double optimum_seconds = 0;        ///< By hazard and stall alone.
  double overhead = 0;               ///< Part of the time that stalls take.
  double expected_lost_seconds = 0;  ///< Work that one failure costs, on average.
  double worst_lost_seconds = 0;     ///< Work that one failure costs at most.
  /// Whether the interval keeps what the tenant has stated: an overhead that is too large goes
  /// before a loss that is.
  bool keeps_most_lost = true;
  bool keeps_cap = true;
};

/// Returns how often to save. What the tenant states as an interval holds. Otherwise it is Daly's
/// optimum, within what a failure may cost and checkpoints may take; where both cannot be had, the
/// cap on what checkpoints take holds. The result is finite for all values.
SaveInterval IntervalOf(const IntervalView& view);

/// Returns the working time between checkpoints after which the least time is lost in all, in
/// seconds, for checkpoints that stall a job for so long and failures that come independently.
/// Infinite without failures, and 0 where checkpoints cost nothing.
///
/// Source: Young, A First Order Approximation to the Optimum Checkpoint Interval, 1974; Daly, A
/// Higher Order Estimate of the Optimum Checkpoint Interval for Restart Dumps, 2006, equation 37.
double DalyInterval(double stall_seconds, double mtbf_seconds);
/// Returns Young's, which is its first order: sqrt(2 stall mtbf).
double YoungInterval(double stall_seconds, double mtbf_seconds);

}  // namespace harmonaize::daemon

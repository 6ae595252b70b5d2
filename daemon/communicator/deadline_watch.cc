#include "daemon/communicator/deadline_watch.h"

#include <algorithm>
#include <cmath>

namespace harmonaize::daemon {

std::optional<DeadlineWatch::Change> DeadlineWatch::Count(double seconds, double deadline_seconds,
                                                          double percentile) {
  ++operations_;
  if (seconds > deadline_seconds) ++missed_;
  const double times = seconds / deadline_seconds;
  if (times_.size() < kLooksAt) {
    times_.push_back(times);
  } else {
    times_[next_++ % kLooksAt] = times;
  }
  if (operations_ % kLooksEvery != 0) return std::nullopt;
  const double measured = AtPercentile(percentile);
  const bool met = measured <= 1;
  if (met == met_) return std::nullopt;
  met_ = met;
  return Change{met, measured * deadline_seconds};
}

// Returns the least time that so many percent of the last operations have kept.
double DeadlineWatch::AtPercentile(double percentile) {
  sorted_ = times_;
  const auto count = static_cast<double>(sorted_.size());
  const double place = std::clamp(std::ceil(percentile / 100 * count) - 1, 0.0, count - 1);
  const auto at = sorted_.begin() + static_cast<std::ptrdiff_t>(place);
  std::nth_element(sorted_.begin(), at, sorted_.end());
  return *at;
}

}  // namespace harmonaize::daemon

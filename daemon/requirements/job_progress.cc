#include "daemon/requirements/job_progress.h"

#include <algorithm>
#include <vector>

namespace harmonaize::daemon {
namespace {

/// Fewest times of steps from which a median says something.
constexpr size_t kFewestTimes = 2;

}  // namespace

bool JobProgress::Take(const ProgressReport& report, double now_seconds) {
  if (last_.has_value() && report.step == last_->step) return false;
  // A job that went back to a checkpoint counts its steps anew.
  if (last_.has_value() && report.step < last_->step) steps_.clear();
  last_ = report;
  steps_.push_back({report.step, now_seconds});
  if (steps_.size() > kKept) steps_.pop_front();
  return true;
}

std::optional<double> JobProgress::StepSeconds() const {
  std::vector<double> times;
  for (size_t i = 1; i < steps_.size(); ++i) {
    const auto steps = static_cast<double>(steps_[i].step - steps_[i - 1].step);
    times.push_back((steps_[i].at_seconds - steps_[i - 1].at_seconds) / steps);
  }
  if (times.size() < kFewestTimes) return std::nullopt;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

}  // namespace harmonaize::daemon

#include "daemon/adaptation/job_progress.h"

#include <algorithm>
#include <vector>

namespace harmonaize::daemon {
namespace {

/// Fewest times of steps from which a median says something.
constexpr size_t kFewestTimes = 2;

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

void JobProgress::BeginAnew() {
  const std::optional<double> step = StepSeconds();
  if (step.has_value()) awaited_seconds_ = steps_.back().at_seconds + *step;
  steps_.clear();
}

bool JobProgress::Take(const ProgressReport& report, double now_seconds, double exchange_seconds) {
  if (last_.has_value() && report.step == last_->step) return false;
  // A job that went back to a checkpoint counts its steps anew.
  if (last_.has_value() && report.step < last_->step) steps_.clear();
  if (awaited_seconds_.has_value()) {
    pause_seconds_ = std::max(0.0, now_seconds - *awaited_seconds_);
    awaited_seconds_.reset();
  }
  const bool is_other = last_.has_value() && report.settings != last_->settings;
  const uint64_t settings = (steps_.empty() ? 0 : steps_.back().settings) + (is_other ? 1 : 0);
  last_ = report;
  steps_.push_back({report.step, now_seconds, exchange_seconds, settings, report.samples});
  if (steps_.size() > kKept) steps_.pop_front();
  return true;
}

StepTimes JobProgress::Between(const Step& earlier, const Step& later) {
  const auto steps = static_cast<double>(later.step - earlier.step);
  return {.step_seconds = (later.at_seconds - earlier.at_seconds) / steps,
          .exchange_seconds = (later.exchange_seconds - earlier.exchange_seconds) / steps};
}

std::optional<double> JobProgress::StepSeconds() const {
  std::vector<double> times;
  for (size_t i = 1; i < steps_.size(); ++i) {
    times.push_back(Between(steps_[i - 1], steps_[i]).step_seconds);
  }
  if (times.size() < kFewestTimes) return std::nullopt;
  return Median(std::move(times));
}

// The step that a report tells of was done with the report's settings.
std::optional<StepTimes> JobProgress::RecentTimes() const {
  std::vector<double> steps;
  std::vector<double> exchanges;
  for (size_t i = steps_.size(); i > 1 && steps.size() < kRecent; --i) {
    if (steps_[i - 1].settings != steps_.back().settings) break;
    const StepTimes times = Between(steps_[i - 2], steps_[i - 1]);
    steps.push_back(times.step_seconds);
    exchanges.push_back(times.exchange_seconds);
  }
  if (steps.size() < kFewestRecent) return std::nullopt;
  StepTimes median{Median(std::move(steps)), Median(std::move(exchanges))};
  median.exchange_seconds = std::min(median.exchange_seconds, median.step_seconds);
  return median;
}

std::optional<double> JobProgress::SamplesOfStep() const {
  if (last_.has_value() && last_->settings.batch_size.has_value()) {
    return last_->settings.batch_size;
  }
  if (steps_.size() < 2) return std::nullopt;
  const Step& earlier = steps_[steps_.size() - 2];
  const Step& later = steps_.back();
  if (!earlier.samples.has_value() || !later.samples.has_value()) return std::nullopt;
  const double samples = *later.samples - *earlier.samples;
  if (samples <= 0) return std::nullopt;
  return samples / static_cast<double>(later.step - earlier.step);
}

}  // namespace harmonaize::daemon

#include "daemon/adaptation/training_advice.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace harmonaize::daemon {
namespace {

/// A value is nearly as fast as the fastest one if it reaches this part of its speed.
constexpr double kNearlyAsFast = 0.9;
/// With a gradient noise scale the speed is that of learning: nearly as fast is nearer then.
constexpr double kAsFastAtLearning = 0.98;
/// Least gain for which a job is disturbed: measured times vary by some percent.
constexpr double kLeastGain = 1.1;
/// By how many times a smaller value has to be smaller: the job would go to and fro otherwise.
constexpr double kLeastReduction = 2;
/// A needed rate is met if this many times of it are predicted.
constexpr double kMargin = 1.05;
/// Longest range of which all whole numbers are looked at; of others it is powers of two times the
/// value in force.
constexpr double kAllOfRange = 64;

/// One setting that may be changed.
struct Choice {
  std::string_view setting;
  double now = 0;
  ValueRange range;
  bool changes_samples = false;  ///< Its multiple is that of a step's samples, else of exchanges.
};

/// Predicts steps with r times the value in force.
class StepModel {
 public:
  explicit StepModel(const TrainingView& view)
      : view_(view),
        least_(std::max(0.0, view.times.step_seconds - view.times.exchange_seconds)),
        most_(std::clamp(view.most_computation_seconds, least_, view.times.step_seconds)) {}

  double StepSeconds(const Choice& choice, double r) const {
    return StepSeconds(choice, r, (least_ + most_) / 2);
  }

  Quantiles Expected(const Choice& choice, double r) const {
    double low = StepSeconds(choice, r, least_);
    double high = StepSeconds(choice, r, most_);
    if (low > high) std::swap(low, high);
    return {.p10 = low, .p50 = StepSeconds(choice, r), .p90 = high};
  }

  /// Returns how many times as many samples go by in a second.
  double SampleGain(const Choice& choice, double r) const {
    return view_.times.step_seconds / StepSeconds(choice, r) * (choice.changes_samples ? r : 1);
  }

  /// Returns how many times as fast the job gets on.
  double Gain(const Choice& choice, double r) const {
    double worth = 1;
    if (KnowsWorth(choice)) {
      const double scale = view_.gradient_noise_scale;
      worth = (scale + view_.samples_per_step) / (scale + r * view_.samples_per_step);
    }
    return SampleGain(choice, r) * worth;
  }

  bool KnowsWorth(const Choice& choice) const {
    return choice.changes_samples && view_.gradient_noise_scale > 0 && view_.samples_per_step > 0;
  }

 private:
  double StepSeconds(const Choice& choice, double r, double computation) const {
    const double step = view_.times.step_seconds;
    if (!choice.changes_samples) return computation + (step - computation) / r;
    return step + (r - 1) * computation;
  }

  const TrainingView& view_;
  const double least_;  // bounds of the computation of a step, in seconds
  const double most_;
};

/// Returns the values to choose from, ascending: those of the range, and the one in force.
std::vector<double> ValuesOf(const Choice& choice) {
  std::vector<double> values = {choice.now, choice.range.least, choice.range.most};
  if (choice.range.most - choice.range.least <= kAllOfRange) {
    for (double value = choice.range.least; value < choice.range.most; ++value) {
      values.push_back(value);
    }
  }
  for (double value = choice.now * 2; value < choice.range.most; value *= 2) {
    values.push_back(value);
  }
  for (double value = choice.now / 2; value > choice.range.least; value /= 2) {
    values.push_back(std::floor(value));
  }
  std::erase_if(values, [&](double value) {
    return value != choice.now && (value < choice.range.least || value > choice.range.most);
  });
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

/// Returns the settings that the terms let change, and whose values the job has said.
std::vector<Choice> ChoicesOf(const TrainingView& view) {
  const AdaptTerms& terms = view.terms;
  const TrainingSettings& now = view.settings;
  std::vector<Choice> choices;
  const auto may_change = [](const auto& range, const auto& value) {
    return range.has_value() && value.has_value() && *value > 0;
  };
  if (may_change(terms.accumulation, now.accumulation)) {
    Choice choice{"accumulation", *now.accumulation, *terms.accumulation, true};
    // Its batches are bounded as well.
    if (may_change(terms.batch_size, now.batch_size)) {
      const double samples = *now.batch_size / *now.accumulation;
      choice.range.least =
          std::max(choice.range.least, std::ceil(terms.batch_size->least / samples));
      choice.range.most = std::min(choice.range.most, std::floor(terms.batch_size->most / samples));
    }
    if (choice.range.least <= choice.range.most) choices.push_back(choice);
  } else if (may_change(terms.batch_size, now.batch_size)) {
    choices.push_back({"batch_size", *now.batch_size, *terms.batch_size, true});
  }
  if (may_change(terms.synchronisation_interval, now.synchronisation_interval)) {
    choices.push_back({"synchronisation_interval", *now.synchronisation_interval,
                       *terms.synchronisation_interval, false});
  }
  return choices;
}

/// Returns the best value of one setting: by what is needed, or else by speed.
double BestValue(const Choice& choice, const StepModel& model, double needed_sample_gain) {
  const std::vector<double> values = ValuesOf(choice);
  double fastest = 0;
  for (const double value : values)
    fastest = std::max(fastest, model.Gain(choice, value / choice.now));
  const double enough = fastest * (model.KnowsWorth(choice) ? kAsFastAtLearning : kNearlyAsFast);
  const auto find = [&](const auto& suits) {
    return std::find_if(values.begin(), values.end(),
                        [&](double value) { return suits(value / choice.now); });
  };
  if (needed_sample_gain > 0) {
    const auto found =
        find([&](double r) { return model.SampleGain(choice, r) >= needed_sample_gain; });
    if (found != values.end()) return *found;
  }
  return *find([&](double r) { return model.Gain(choice, r) >= enough; });
}

/// Returns the learning rate's factor for r times as many samples: the linear scaling rule, within
/// the range. Source: Goyal et al., Accurate, Large Minibatch SGD.
std::optional<double> LearningRateFactor(const TrainingView& view, double r) {
  const std::optional<ValueRange>& range = view.terms.learning_rate_factor;
  if (!range.has_value()) return std::nullopt;
  const double now = view.settings.learning_rate_factor.value_or(1);
  return std::clamp(now * r, range->least, range->most);
}

}  // namespace

std::optional<TrainingAdvice> AdviseTraining(const TrainingView& view) {
  if (view.times.step_seconds <= 0) return std::nullopt;
  const StepModel model(view);
  const double rate = view.samples_per_step / view.times.step_seconds;
  const double needed_gain = view.needed_samples_per_second > 0 && rate > 0
                                 ? kMargin * view.needed_samples_per_second / rate
                                 : 0;
  std::optional<TrainingAdvice> best;
  for (const Choice& choice : ChoicesOf(view)) {
    const double value = BestValue(choice, model, needed_gain);
    const double r = value / choice.now;
    const double gain = model.Gain(choice, r);
    // What is not fast enough for a deadline is changed for any gain.
    const bool is_late = needed_gain > kMargin;
    const bool pays = r > 1 ? gain >= (is_late ? 1 : kLeastGain) : r <= 1 / kLeastReduction;
    if (r == 1 || !pays || (best.has_value() && best->gain >= gain)) continue;
    best = {
        .setting = choice.setting,
        .from = choice.now,
        .to = value,
        .learning_rate_factor = choice.changes_samples ? LearningRateFactor(view, r) : std::nullopt,
        .expected_step = model.Expected(choice, r),
        .gain = gain};
  }
  return best;
}

}  // namespace harmonaize::daemon

#include "daemon/elasticity/speed_model.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>
#include <vector>

namespace harmonaize::daemon {
namespace {

/// Part of the computation that does not shrink with more ranks, where only one number of ranks was
/// seen: reading data and the step of the optimiser take some percent.
constexpr double kPriorFixedPart = 0.05;
/// Part of the exchange that grows with each hop, where only one number of ranks was seen: the rest
/// is bytes, which large gradients spend most of the time on.
constexpr double kPriorHopPart = 0.1;
/// Exchange of many ranks as a part of the whole step of one rank, where only one rank was seen:
/// between that of jobs that scale well and of those that hardly do.
constexpr double kPriorExchangePart = 0.2;

/// Bounds of what a tenant may tell, beyond those of any training. Within them no square or
/// quotient of the values overflows, or becomes nothing.
constexpr double kLeastSamples = 1e-6;
constexpr double kMostSamples = 1e15;
constexpr double kLeastStepSeconds = 1e-9;
constexpr double kMostStepSeconds = 1e8;

/// Least part of a step that counts as computation, whatever the reports say: a step without any
/// would take no time on one rank.
constexpr double kLeastComputationPart = 0.01;

/// Confidence in a number of ranks that was seen: times vary by some percent.
constexpr double kConfidenceOfSeen = 0.95;
/// Confidence that each doubling away from what was seen leaves, with several numbers seen.
constexpr double kConfidenceOfDoubling = 0.8;
/// The same with one number seen, where the prior has to do.
constexpr double kConfidenceOfPrior = 0.6;

/// One equation y = a first + b second.
struct Equation {
  double first = 0;
  double second = 0;
  double value = 0;
};

/// Returns a alone, by least squares.
double FitOne(std::span<const Equation> equations, double Equation::*factor) {
  double squares = 0;
  double products = 0;
  for (const Equation& one : equations) {
    squares += one.*factor * one.*factor;
    products += one.*factor * one.value;
  }
  return squares > 0 ? std::max(0.0, products / squares) : 0;
}

/// Returns a and b, neither of them negative, by least squares.
std::pair<double, double> FitNonNegative(std::span<const Equation> equations) {
  double ff = 0, fs = 0, ss = 0, fy = 0, sy = 0;
  for (const Equation& one : equations) {
    ff += one.first * one.first;
    fs += one.first * one.second;
    ss += one.second * one.second;
    fy += one.first * one.value;
    sy += one.second * one.value;
  }
  const double determinant = ff * ss - fs * fs;
  if (determinant <= 1e-12 * ff * ss) return {FitOne(equations, &Equation::first), 0};
  const double a = (fy * ss - sy * fs) / determinant;
  const double b = (sy * ff - fy * fs) / determinant;
  if (a < 0) return {0, FitOne(equations, &Equation::second)};
  if (b < 0) return {FitOne(equations, &Equation::first), 0};
  return {a, b};
}

bool IsWithin(double value, double least, double most) {
  return value >= least && value <= most;
}

bool CanBe(const SpeedSample& one) {
  return one.ranks >= 1 && IsWithin(one.samples, kLeastSamples, kMostSamples) &&
         IsWithin(one.step_seconds, kLeastStepSeconds, kMostStepSeconds) &&
         IsWithin(one.exchange_seconds, 0, kMostStepSeconds);
}

double ComputationOf(const SpeedSample& one) {
  return std::max(kLeastComputationPart * one.step_seconds,
                  one.step_seconds - one.exchange_seconds);
}

double ExchangeOf(const SpeedSample& one) {
  return one.step_seconds - ComputationOf(one);
}

/// Returns how far values differ: the largest by the smallest one.
template <typename Value>
double Spread(std::span<const SpeedSample> seen, const Value& value) {
  double least = value(seen.front());
  double most = least;
  for (const SpeedSample& one : seen) {
    least = std::min(least, value(one));
    most = std::max(most, value(one));
  }
  return most / least;
}

}  // namespace

std::optional<SpeedModel> SpeedModel::Fit(std::span<const SpeedSample> seen,
                                          double gradient_noise_scale) {
  if (seen.empty() || !std::all_of(seen.begin(), seen.end(), CanBe)) return std::nullopt;
  SpeedModel model;
  if (IsWithin(gradient_noise_scale, kLeastSamples, kMostSamples)) {
    model.noise_scale_ = gradient_noise_scale;
  }
  const SpeedSample& newest = seen.back();
  const auto [least, most] = std::minmax_element(
      seen.begin(), seen.end(),
      [](const SpeedSample& one, const SpeedSample& other) { return one.ranks < other.ranks; });
  model.least_seen_ = least->ranks;
  model.most_seen_ = most->ranks;
  // With one number of ranks the batch is taken for fixed, which predicts less of more ranks.
  model.batch_grows_ =
      model.least_seen_ != model.most_seen_ &&
      Spread(seen, [](const SpeedSample& one) { return one.samples / one.ranks; }) <
          Spread(
              seen, [](const SpeedSample& one) { return one.samples; });
  model.samples_ = model.batch_grows_ ? newest.samples / newest.ranks : newest.samples;
  model.FitComputation(seen);
  model.FitExchange(seen);
  model.MeetExactly(newest);
  for (const SpeedSample& one : seen) {
    if (!model.IsSound(one.ranks)) return std::nullopt;
  }
  return model;
}

/// Returns whether what is said of so many ranks can be: what follows is reckoned with it.
bool SpeedModel::IsSound(int32_t ranks) const {
  const double step = StepSeconds(ranks);
  const double speed = Speed(ranks);
  return std::isfinite(step) && step > 0 && std::isfinite(speed) && speed > 0;
}

void SpeedModel::FitComputation(std::span<const SpeedSample> seen) {
  const SpeedSample& newest = seen.back();
  if (least_seen_ == most_seen_) {
    fixed_ = kPriorFixedPart * ComputationOf(newest);
    per_sample_ = (ComputationOf(newest) - fixed_) * newest.ranks / newest.samples;
    return;
  }
  std::vector<Equation> equations;
  for (const SpeedSample& one : seen) {
    equations.push_back({one.samples / one.ranks, 1, ComputationOf(one)});
  }
  std::tie(per_sample_, fixed_) = FitNonNegative(equations);
}

void SpeedModel::FitExchange(std::span<const SpeedSample> seen) {
  std::vector<Equation> equations;
  for (const SpeedSample& one : seen) {
    const double others = one.ranks - 1;
    if (others > 0) equations.push_back({others / one.ranks, others, ExchangeOf(one)});
  }
  knows_exchange_ = !equations.empty();
  if (!knows_exchange_) {
    bytes_ = kPriorExchangePart * seen.back().step_seconds * (1 - kPriorHopPart);
    hop_ = kPriorExchangePart * seen.back().step_seconds * kPriorHopPart;
  } else if (equations.size() == 1) {
    bytes_ = equations[0].value * (1 - kPriorHopPart) / equations[0].first;
    hop_ = equations[0].value * kPriorHopPart / equations[0].second;
  } else {
    std::tie(bytes_, hop_) = FitNonNegative(equations);
  }
}

void SpeedModel::MeetExactly(const SpeedSample& newest) {
  const double computation = ComputationSeconds(newest.ranks);
  per_sample_ *= ComputationOf(newest) / computation;
  fixed_ *= ComputationOf(newest) / computation;
  const double exchange = ExchangeSeconds(newest.ranks);
  if (exchange <= 0) return;
  bytes_ *= ExchangeOf(newest) / exchange;
  hop_ *= ExchangeOf(newest) / exchange;
}

double SpeedModel::SamplesOfStep(int32_t ranks) const {
  return batch_grows_ ? samples_ * ranks : samples_;
}

double SpeedModel::ComputationSeconds(int32_t ranks) const {
  return per_sample_ * SamplesOfStep(ranks) / ranks + fixed_;
}

double SpeedModel::ExchangeSeconds(int32_t ranks) const {
  const double others = ranks - 1;
  return bytes_ * others / ranks + hop_ * others;
}

double SpeedModel::StepSeconds(int32_t ranks, double stretch) const {
  return ComputationSeconds(ranks) + stretch * ExchangeSeconds(ranks);
}

double SpeedModel::Speed(int32_t ranks, double stretch) const {
  const double samples = SamplesOfStep(ranks);
  const double worth = noise_scale_ > 0 ? noise_scale_ / (noise_scale_ + samples) : 1;
  return samples * worth / StepSeconds(ranks, stretch);
}

double SpeedModel::Confidence(int32_t ranks) const {
  const double above = std::log2(static_cast<double>(ranks) / most_seen_);
  const double below = std::log2(static_cast<double>(least_seen_) / ranks);
  const double doublings = std::max({above, below, 0.0});
  const bool has_several = least_seen_ != most_seen_ && knows_exchange_;
  return kConfidenceOfSeen *
         std::pow(has_several ? kConfidenceOfDoubling : kConfidenceOfPrior, doublings);
}

}  // namespace harmonaize::daemon

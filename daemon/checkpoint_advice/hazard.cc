#include "daemon/checkpoint_advice/hazard.h"

#include <algorithm>
#include <cmath>

#include <boost/math/special_functions/gamma.hpp>

namespace harmonaize::daemon {
namespace {

constexpr double kDay = 86400;

/// What is believed of a cause before anything was seen.
struct Prior {
  double events = 0;     ///< The Gamma distribution's shape: few, so that what is seen soon counts.
  double unit_days = 0;  ///< In which so many events would have been seen.
};

/// The priors, by FailureCause.
///
/// kHost, kLink: Llama 3's training on 16,384 GPUs, 8 in a host, was interrupted 419 times in 54
/// days, 35 times by switches and cables (Grattafiori et al., The Llama 3 Herd of Models, 2024,
/// section 3.3.4): 3.5 and 0.3 in a thousand host-days. Other runs tell of up to ten times as many,
/// so the priors' means are somewhat higher, and their spreads are wide.
/// kRank: 54 of these interruptions were bugs of software, which is 0.06 in a thousand rank-days of
/// a program that was in production. Programs that are still being worked on fail more often, so
/// the mean is five in a thousand, and weighs least.
/// kEarly, kReclaim: no study gives a rate for all clouds. A host in ten years is what a provider
/// may have that keeps its word; what this provider does is soon seen.
constexpr std::array<Prior, kFailureCauseCount> kPriors = {{{.events = 0.25, .unit_days = 50},
                                                            {.events = 0.5, .unit_days = 100},
                                                            {.events = 0.5, .unit_days = 1000},
                                                            {.events = 0.25, .unit_days = 900},
                                                            {.events = 0.25, .unit_days = 900}}};

/// Time, in seconds, after which what was seen counts for a third: thirty days, over which a
/// cluster and a program stay much the same.
constexpr double kForgetSeconds = 30 * kDay;

/// Most events, and longest time of units in seconds, that are believed: a million hosts for a
/// year. Larger numbers are faults of whoever counts.
constexpr double kMostEvents = 1e6;
constexpr double kMostUnitSeconds = 3e13;

/// Returns a number of events or seconds within its bounds; 0 for one that is none.
double Counted(double value, double most) {
  return std::isfinite(value) && value > 0 ? std::min(value, most) : 0;
}

/// Returns the units of a job that a cause strikes.
double UnitsOf(FailureCause cause, const JobUnits& units) {
  const double count = cause == FailureCause::kRank ? units.ranks : units.hosts;
  return std::isfinite(count) ? std::clamp(count, 1.0, kMostEvents) : 1;
}

/// Returns the rate with its two parameters rounded, so that nothing that follows from it tells
/// more.
FailureRate Rounded(const FailureRate& rate) {
  const double shape = Coarse(rate.shape());
  return {shape, shape / Coarse(rate.Mean())};
}

/// Returns the rate of one unit as it may be shown and used: a tenant knows its own ranks anyway.
FailureRate ShownRate(FailureCause cause, const SeenFailures& seen) {
  const FailureRate rate(cause, seen);
  return cause == FailureCause::kRank ? rate : Rounded(rate);
}

Spread Times(const Spread& spread, double factor) {
  return {spread.p10 * factor, spread.p50 * factor, spread.p90 * factor};
}

}  // namespace

std::string_view NameOf(FailureCause cause) {
  switch (cause) {
    case FailureCause::kRank: return "rank";
    case FailureCause::kHost: return "host";
    case FailureCause::kLink: return "link";
    case FailureCause::kEarly: return "early";
    case FailureCause::kReclaim: return "reclaim";
  }
  return "";
}

void SeenFailures::Age(double seconds) {
  if (!(seconds > 0)) return;
  const double kept = std::exp(-seconds / kForgetSeconds);
  events *= kept;
  unit_seconds *= kept;
}

FailureRate::FailureRate(FailureCause cause, const SeenFailures& seen) {
  const Prior& prior = kPriors[static_cast<size_t>(cause)];
  shape_ = prior.events + Counted(seen.events, kMostEvents);
  unit_seconds_ = prior.unit_days * kDay + Counted(seen.unit_seconds, kMostUnitSeconds);
}

double FailureRate::Quantile(double probability) const {
  return boost::math::gamma_p_inv(shape_, probability) / unit_seconds_;
}

// The sum of Gamma distributions is taken for one with the same mean and variance.
JobHazard HazardOf(const SeenByCause& seen, const JobUnits& units) {
  JobHazard hazard;
  double variance = 0;
  for (size_t i = 0; i < kFailureCauseCount; ++i) {
    const auto cause = static_cast<FailureCause>(i);
    const FailureRate rate = ShownRate(cause, seen[i]);
    const double count = UnitsOf(cause, units);
    const double mean = rate.Mean() * count;
    hazard.by_cause[i] = {.mean = mean, .spread = Times(rate.Quantiles(), count)};
    hazard.mean += mean;
    variance += mean * mean / rate.shape();
  }
  const double shape = hazard.mean * hazard.mean / variance;
  hazard.spread = FailureRate(shape, shape / hazard.mean).Quantiles();
  return hazard;
}

double MeanHazardOf(const SeenByCause& seen, const JobUnits& units) {
  double mean = 0;
  for (size_t i = 0; i < kFailureCauseCount; ++i) {
    const auto cause = static_cast<FailureCause>(i);
    mean += ShownRate(cause, seen[i]).Mean() * UnitsOf(cause, units);
  }
  return mean;
}

double Coarse(double value) {
  if (!(value > 0) || !std::isfinite(value)) return 0;
  const double decade = std::pow(10, std::floor(std::log10(value)));
  const double times = value / decade;
  // The bounds are the geometric means of 1, 2, 5 and 10.
  if (times < std::sqrt(2.0)) return decade;
  if (times < std::sqrt(10.0)) return 2 * decade;
  return (times < std::sqrt(50.0) ? 5 : 10) * decade;
}

}  // namespace harmonaize::daemon

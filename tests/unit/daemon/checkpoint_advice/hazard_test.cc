#include "daemon/checkpoint_advice/hazard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace harmonaize::daemon {
namespace {

constexpr double kDay = 86400;
constexpr auto kHost = static_cast<size_t>(FailureCause::kHost);
constexpr auto kRank = static_cast<size_t>(FailureCause::kRank);

TEST(FailureRate, BeginsWithThePriorAndEndsWithWhatWasSeen) {
  const FailureRate prior(FailureCause::kHost, {});
  EXPECT_NEAR(prior.Mean() * 1000 * kDay, 5, 1e-9) << "in a thousand host-days";
  const FailureRate much(FailureCause::kHost, {.events = 200, .unit_seconds = 1e4 * kDay});
  EXPECT_NEAR(much.Mean() * 1000 * kDay, 20, 0.5);
}

TEST(FailureRate, QuantilesAreThoseOfTheGammaDistribution) {
  // With a shape of 1 it is the exponential distribution.
  const FailureRate rate(1, 100);
  EXPECT_NEAR(rate.Quantile(0.5), std::log(2.0) / 100, 1e-12);
  EXPECT_NEAR(rate.Quantile(0.9), std::log(10.0) / 100, 1e-12);
}

TEST(FailureRate, ItsSpreadShrinksWithWhatIsSeen) {
  const Spread prior = FailureRate(FailureCause::kHost, {}).Quantiles();
  const Spread seen =
      FailureRate(FailureCause::kHost, {.events = 50, .unit_seconds = 1e4 * kDay}).Quantiles();
  EXPECT_GT(prior.p90 / prior.p10, 20);
  EXPECT_LT(seen.p90 / seen.p10, 2);
}

TEST(FailureRate, SenselessNumbersCountAsNothing) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinite = std::numeric_limits<double>::infinity();
  for (const double bad : {nan, infinite, -infinite, -1.0}) {
    const FailureRate rate(FailureCause::kRank, {.events = bad, .unit_seconds = bad});
    EXPECT_EQ(rate.Mean(), FailureRate(FailureCause::kRank, {}).Mean()) << bad;
    const JobHazard hazard = HazardOf({}, {.ranks = bad, .hosts = bad});
    EXPECT_TRUE(std::isfinite(hazard.mean) && hazard.mean > 0) << bad;
    EXPECT_TRUE(std::isfinite(hazard.spread.p90)) << bad;
  }
}

TEST(JobHazard, GrowsWithTheJob) {
  const JobHazard small = HazardOf({}, {.ranks = 8, .hosts = 1});
  const JobHazard large = HazardOf({}, {.ranks = 8000, .hosts = 1000});
  EXPECT_NEAR(large.mean / small.mean, 1000, 1e-6);
  EXPECT_LT(small.spread.p10, small.spread.p50);
  EXPECT_LT(small.spread.p50, small.spread.p90);
}

TEST(JobHazard, TheMeanAloneIsTheSame) {
  SeenByCause seen;
  seen[kHost] = {.events = 3, .unit_seconds = 100 * kDay};
  seen[kRank] = {.events = 1, .unit_seconds = 10 * kDay};
  const JobUnits units{.ranks = 16, .hosts = 2};
  EXPECT_DOUBLE_EQ(MeanHazardOf(seen, units), HazardOf(seen, units).mean);
}

TEST(JobHazard, RanksThatAreKilledRaiseTheRateOfRanksAlone) {
  SeenByCause seen;
  const JobHazard before = HazardOf(seen, {.ranks = 8, .hosts = 2});
  seen[kRank].events = 3;
  const JobHazard after = HazardOf(seen, {.ranks = 8, .hosts = 2});
  EXPECT_GT(after.by_cause[kRank].mean, 10 * before.by_cause[kRank].mean);
  for (size_t i = 0; i < kFailureCauseCount; ++i) {
    if (i == kRank) continue;
    EXPECT_EQ(after.by_cause[i].mean, before.by_cause[i].mean) << i;
  }
}

TEST(JobHazard, WhatOthersLoseShowsInSteps) {
  SeenByCause seen;
  seen[kHost] = {.events = 10, .unit_seconds = 1000 * kDay};
  const JobHazard before = HazardOf(seen, {});
  seen[kHost].events += 1;
  const JobHazard after = HazardOf(seen, {});
  EXPECT_EQ(before.by_cause[kHost].mean, after.by_cause[kHost].mean)
      << "one failure of others is not to be read off";
  EXPECT_EQ(before.by_cause[kHost].spread, after.by_cause[kHost].spread);
}

TEST(JobHazard, WhatIsLongPastCountsLess) {
  SeenFailures seen = {.events = 10, .unit_seconds = 100};
  seen.Age(30 * kDay);
  EXPECT_NEAR(seen.events, 10 / std::exp(1.0), 1e-9);
  EXPECT_NEAR(seen.unit_seconds, 100 / std::exp(1.0), 1e-9);
  const SeenFailures before = seen;
  seen.Age(-5);
  EXPECT_EQ(seen, before) << "a clock that goes back changes nothing";
}

TEST(Coarse, RoundsToOneTwoOrFive) {
  EXPECT_DOUBLE_EQ(Coarse(1.3), 1);
  EXPECT_DOUBLE_EQ(Coarse(1.5), 2);
  EXPECT_DOUBLE_EQ(Coarse(30), 20);
  EXPECT_DOUBLE_EQ(Coarse(0.0034), 0.005);
  EXPECT_DOUBLE_EQ(Coarse(8), 10);
  EXPECT_EQ(Coarse(0), 0);
  EXPECT_EQ(Coarse(-1), 0);
  EXPECT_EQ(Coarse(std::numeric_limits<double>::infinity()), 0);
}

}  // namespace
}  // namespace harmonaize::daemon

#include "daemon/checkpoint_advice/save_interval.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "daemon/checkpoint_advice/save_times.h"

namespace harmonaize::daemon {
namespace {

constexpr double kMinute = 60;
constexpr double kHour = 3600;

// The values that Daly's paper gives in figures 3 to 5.
TEST(DalyInterval, IsThatOfThePaper) {
  EXPECT_NEAR(DalyInterval(5 * kMinute, 24 * kHour) / kMinute, 117, 0.5);
  EXPECT_NEAR(DalyInterval(5 * kMinute, 6 * kHour) / kMinute, 57, 0.5);
  EXPECT_NEAR(DalyInterval(5 * kMinute, 15 * kMinute) / kMinute, 9.1, 0.05);
}

TEST(DalyInterval, HoldsAtItsBounds) {
  EXPECT_EQ(DalyInterval(0, kHour), 0);
  EXPECT_EQ(DalyInterval(kHour, kMinute), kMinute);
  EXPECT_TRUE(std::isinf(DalyInterval(1, std::numeric_limits<double>::infinity())));
}

/// Returns the expected time that a second of work takes, by Daly's complete model without
/// restarts: exact for failures that come independently.
double TimePerWork(double interval, double stall, double mtbf) {
  return mtbf / interval * std::expm1((interval + stall) / mtbf);
}

TEST(DalyInterval, LosesTheLeastTime) {
  for (const double mtbf : {kHour, 10 * kHour, 100 * kHour}) {
    for (const double stall : {1.0, 30.0, 300.0}) {
      const double best = DalyInterval(stall, mtbf);
      const double lost = TimePerWork(best, stall, mtbf);
      EXPECT_LE(lost, TimePerWork(best * 1.3, stall, mtbf)) << mtbf << " " << stall;
      EXPECT_LE(lost, TimePerWork(best / 1.3, stall, mtbf)) << mtbf << " " << stall;
    }
  }
}

IntervalView View(double stall, double mtbf) {
  return {.stall_seconds = stall, .safe_seconds = stall, .hazard_per_second = 1 / mtbf};
}

TEST(SaveInterval, IsTheOptimumWhereNothingIsStated) {
  const SaveInterval interval = IntervalOf(View(30, 10 * kHour));
  EXPECT_EQ(interval.bound, IntervalBound::kOptimum);
  EXPECT_DOUBLE_EQ(interval.seconds, DalyInterval(30, 10 * kHour));
  EXPECT_NEAR(interval.overhead, 30 / (interval.seconds + 30), 1e-12);
  EXPECT_EQ(interval.worst_lost_seconds, interval.seconds + 30);
  EXPECT_TRUE(interval.keeps_most_lost && interval.keeps_cap);
}

TEST(SaveInterval, WhatTheTenantStatesHolds) {
  IntervalView view = View(30, kHour);
  view.interval_seconds = 1234;
  view.overhead_cap = 0.001;
  view.most_lost_seconds = 100;
  const SaveInterval interval = IntervalOf(view);
  EXPECT_EQ(interval.seconds, 1234);
  EXPECT_EQ(interval.bound, IntervalBound::kStated);
  EXPECT_FALSE(interval.keeps_cap) << "and what it does not keep is said";
  EXPECT_FALSE(interval.keeps_most_lost);
}

TEST(SaveInterval, KeepsTheMostThatMayBeLost) {
  IntervalView view = View(5, 1000 * kHour);
  view.safe_seconds = 60;
  view.most_lost_seconds = 600;
  const SaveInterval interval = IntervalOf(view);
  EXPECT_EQ(interval.seconds, 540) << "the last checkpoint may not be safe yet";
  EXPECT_EQ(interval.bound, IntervalBound::kMostLost);
  EXPECT_EQ(interval.worst_lost_seconds, 600);
  EXPECT_TRUE(interval.keeps_most_lost);
}

TEST(SaveInterval, TheCapGoesBeforeTheLoss) {
  IntervalView view = View(60, kHour);
  view.overhead_cap = 0.05;
  view.most_lost_seconds = 300;
  const SaveInterval interval = IntervalOf(view);
  EXPECT_EQ(interval.bound, IntervalBound::kCap);
  EXPECT_NEAR(interval.overhead, 0.05, 1e-9);
  EXPECT_FALSE(interval.keeps_most_lost);
  EXPECT_TRUE(interval.keeps_cap);
}

TEST(SaveInterval, ImportanceWeighsLostWork) {
  IntervalView view = View(10, 100 * kHour);
  const double normal = IntervalOf(view).seconds;
  view.weight = WeightOf(SaveImportance::kHigh);
  EXPECT_NEAR(IntervalOf(view).seconds / normal, 1 / std::sqrt(2.0), 0.01);
  view.weight = WeightOf(SaveImportance::kLow);
  EXPECT_NEAR(IntervalOf(view).seconds / normal, std::sqrt(2.0), 0.01);
}

TEST(SaveInterval, IsSoundForExtremeValues) {
  const double infinite = std::numeric_limits<double>::infinity();
  const double values[] = {0,     1e-300,   1,         1e6,
                           1e300, infinite, -infinite, std::numeric_limits<double>::quiet_NaN()};
  for (const double stall : values) {
    for (const double safe : values) {
      for (const double hazard : values) {
        for (const std::optional<double> cap : {std::optional<double>(), {0.0}, {1.0}}) {
          const SaveInterval interval = IntervalOf({.stall_seconds = stall,
                                                    .safe_seconds = safe,
                                                    .hazard_per_second = hazard,
                                                    .most_lost_seconds = 60,
                                                    .overhead_cap = cap});
          EXPECT_GE(interval.seconds, kLeastSaveIntervalSeconds);
          EXPECT_LE(interval.seconds, kMostSaveIntervalSeconds);
          EXPECT_TRUE(std::isfinite(interval.overhead));
          EXPECT_TRUE(std::isfinite(interval.worst_lost_seconds));
        }
      }
    }
  }
}

TEST(SaveInterval, WithoutFailuresOrCostsItEndsAtItsBounds) {
  IntervalView view = View(10, 1);
  view.hazard_per_second = 0;
  EXPECT_EQ(IntervalOf(view).bound, IntervalBound::kMost);
  EXPECT_EQ(IntervalOf(View(0, kHour)).bound, IntervalBound::kLeast);
  view = View(0, kHour);
  view.safe_seconds = 90;
  EXPECT_EQ(IntervalOf(view).seconds, 90) << "one checkpoint after the other";
  EXPECT_EQ(IntervalOf(view).bound, IntervalBound::kSaveTime);
}

TEST(SaveInterval, IsNoShorterThanThePolicysLeast) {
  IntervalView view = View(0.1, 60);
  EXPECT_EQ(IntervalOf(view).seconds, kLeastSaveIntervalSeconds);
  view.least_seconds = 1;
  EXPECT_EQ(IntervalOf(view).bound, IntervalBound::kOptimum);
  EXPECT_NEAR(IntervalOf(view).seconds, 3.4, 0.1);
  view.least_seconds = 60;
  EXPECT_EQ(IntervalOf(view).seconds, 60);
  EXPECT_EQ(IntervalOf(view).bound, IntervalBound::kLeast);
  view.least_seconds = -1;
  EXPECT_GE(IntervalOf(view).seconds, 1);
}

TEST(SaveTimes, AreMeasuredStatedOrAssumed) {
  SaveTimes times;
  EXPECT_EQ(times.Usual(std::nullopt).basis, SaveBasis::kAssumed);
  EXPECT_EQ(times.Usual(7).stall_seconds, 7);
  EXPECT_EQ(times.Usual(7).basis, SaveBasis::kStated);
  times.Take(SavePlace::kMemory, 1, 2);
  times.Take(SavePlace::kMemory, 3, 4);
  const SaveEstimate usual = times.Usual(7);
  EXPECT_EQ(usual.basis, SaveBasis::kMeasured);
  EXPECT_EQ(usual.stall_seconds, 2);
  EXPECT_LT(usual.safe_seconds.p10, 2);
  EXPECT_EQ(usual.safe_seconds.p50, 4);
  EXPECT_GT(usual.safe_seconds.p90, 4);
  EXPECT_EQ(times.Lasting(7).basis, SaveBasis::kStated) << "memory does not outlive its host";
  times.Take(SavePlace::kStorage, 1, 100);
  times.Take(SavePlace::kPeer, 1, 10);
  EXPECT_EQ(times.Lasting(7).safe_seconds.p50, 10) << "the faster one";
}

TEST(SaveTimes, AStallThatNobodyToldIsStatedOrAsLongAsItCanBe) {
  SaveTimes times;
  times.Take(SavePlace::kMemory, std::nullopt, 8);
  EXPECT_EQ(times.Usual(3).stall_seconds, 3);
  EXPECT_EQ(times.Usual(std::nullopt).stall_seconds, 8);
  times.Take(SavePlace::kMemory, 1, 8);
  EXPECT_EQ(times.Usual(3).stall_seconds, 1) << "what was measured";
}

TEST(SaveTimes, SenselessNumbersAreBounded) {
  SaveTimes times;
  for (int i = 0; i < 100; ++i) {
    times.Take(SavePlace::kPeer, std::numeric_limits<double>::infinity(),
               std::numeric_limits<double>::quiet_NaN());
    times.Take(SavePlace::kPeer, -5, 1e300);
  }
  const SaveEstimate usual = times.Usual(std::nullopt);
  EXPECT_GE(usual.stall_seconds, 0);
  EXPECT_LE(usual.safe_seconds.p90, 2 * kMostSaveSeconds);
}

}  // namespace
}  // namespace harmonaize::daemon

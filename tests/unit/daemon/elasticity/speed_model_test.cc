#include "daemon/elasticity/speed_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/unit/daemon/elasticity/worlds.h"

namespace harmonaize::daemon {
namespace {

constexpr TrueSteps kSteps = {.computation = 2, .fixed = 0.05, .bytes = 0.3, .hop = 0.01};

TEST(SpeedModel, PredictsSizesThatWereNotSeen) {
  const SpeedModel model = ModelOf(kSteps, {1, 2, 4});
  for (const int32_t ranks : {1, 2, 3, 4, 8, 16}) {
    EXPECT_NEAR(model.StepSeconds(ranks), kSteps.Seen(ranks).step_seconds, 1e-9) << ranks;
    EXPECT_NEAR(model.Speed(ranks), 1 / kSteps.Seen(ranks).step_seconds, 1e-9) << ranks;
  }
}

TEST(SpeedModel, WithOneSizeThePriorSplitsWhatWasSeen) {
  const SpeedModel model = ModelOf(kSteps, {4});
  const double now = kSteps.Seen(4).step_seconds;
  EXPECT_NEAR(model.StepSeconds(4), now, 1e-9);
  EXPECT_LT(model.StepSeconds(8), now);
  EXPECT_GT(model.StepSeconds(8), now / 2) << "no job scales perfectly";
  EXPECT_GT(model.StepSeconds(2), now);
  EXPECT_LT(model.StepSeconds(2), 2 * now);
}

TEST(SpeedModel, OneRankAloneIsNotTakenForOneThatNeverExchanges) {
  const SpeedModel model = ModelOf({.computation = 1}, {1});
  EXPECT_GT(model.StepSeconds(8), 1.0 / 8);
  EXPECT_GT(model.StepSeconds(64), model.StepSeconds(16)) << "hops outweigh what is left to divide";
}

TEST(SpeedModel, TheNewestSampleIsMetExactly) {
  // The network has become slower since the job had two ranks.
  std::vector<SpeedSample> seen = {kSteps.Seen(2), kSteps.Seen(4)};
  const double before = SpeedModel::Fit(seen)->StepSeconds(8);
  seen.back().step_seconds += seen.back().exchange_seconds;
  seen.back().exchange_seconds *= 2;
  const std::optional<SpeedModel> model = SpeedModel::Fit(seen);
  ASSERT_TRUE(model.has_value());
  EXPECT_NEAR(model->StepSeconds(4), seen.back().step_seconds, 1e-9);
  EXPECT_GT(model->StepSeconds(8), before);
}

TEST(SpeedModel, ABatchThatGrowsWithTheRanksIsRecognised) {
  const std::vector<SpeedSample> seen = {
      {.ranks = 2, .samples = 64, .step_seconds = 1.1, .exchange_seconds = 0.1},
      {.ranks = 4, .samples = 128, .step_seconds = 1.15, .exchange_seconds = 0.15}};
  const std::optional<SpeedModel> model = SpeedModel::Fit(seen);
  ASSERT_TRUE(model.has_value());
  EXPECT_NEAR(model->StepSeconds(8) - 0.175, 1, 0.1) << "each rank computes as much as before";
  EXPECT_NEAR(model->Speed(4), 128 / 1.15, 1e-6);
  EXPECT_GT(model->Speed(8), 1.5 * model->Speed(4));

  const std::optional<SpeedModel> noisy = SpeedModel::Fit(seen, 128);
  ASSERT_TRUE(noisy.has_value());
  EXPECT_NEAR(noisy->Speed(4), 128 / 1.15 / 2, 1e-6) << "a sample of a batch of 128 counts half";
  EXPECT_LT(noisy->Speed(8), 1.5 * noisy->Speed(4));
}

TEST(SpeedModel, AStretchIsOfExchangesAlone) {
  const SpeedModel model = ModelOf(kSteps, {1, 2, 4});
  EXPECT_NEAR(model.StepSeconds(4, 3) - model.StepSeconds(4), 2 * kSteps.Seen(4).exchange_seconds,
              1e-9);
  EXPECT_EQ(model.StepSeconds(1, 3), model.StepSeconds(1));
}

TEST(SpeedModel, ConfidenceFallsWithTheDistanceFromWhatWasSeen) {
  const SpeedModel several = ModelOf(kSteps, {2, 4});
  const SpeedModel one = ModelOf(kSteps, {4});
  EXPECT_EQ(several.Confidence(3), several.Confidence(4));
  EXPECT_GT(several.Confidence(4), several.Confidence(8));
  EXPECT_GT(several.Confidence(8), several.Confidence(16));
  EXPECT_GT(several.Confidence(2), several.Confidence(1));
  EXPECT_GT(several.Confidence(8), one.Confidence(8));
  EXPECT_GT(one.Confidence(1024), 0);
}

TEST(SpeedModel, WhatCannotBeIsRefused) {
  EXPECT_FALSE(SpeedModel::Fit({}).has_value());
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const SpeedSample& one :
       {SpeedSample{.ranks = 0, .step_seconds = 1}, SpeedSample{.step_seconds = 0},
        SpeedSample{.step_seconds = nan}, SpeedSample{.samples = 0, .step_seconds = 1},
        SpeedSample{.samples = nan, .step_seconds = 1},
        SpeedSample{.step_seconds = 1, .exchange_seconds = -1}}) {
    EXPECT_FALSE(SpeedModel::Fit({&one, 1}).has_value());
  }
}

// Whatever tenants tell, what follows from it is a number, or nothing is said.
TEST(SpeedModel, NothingThatIsToldMakesItSayWhatIsNoNumber) {
  const double values[] = {0,   5e-324, 1e-323, 1e-300, 1e-9,    1e-6,     1e-3, 1,
                           1e3, 9e15,   1e15,   1e100,  1.7e308, INFINITY, NAN};
  size_t models = 0;
  for (const double samples : values) {
    for (const double step : values) {
      for (const double exchange : values) {
        for (const double scale : values) {
          for (const std::vector<int32_t>& sizes :
               {std::vector<int32_t>{1}, {1048576}, {1, 2}, {2, 1048576, 3}}) {
            std::vector<SpeedSample> seen;
            for (const int32_t ranks : sizes) {
              seen.push_back({ranks, seen.empty() ? samples : 64, step, std::min(exchange, step)});
            }
            const auto model = SpeedModel::Fit(seen, scale);
            if (!model.has_value()) continue;
            ++models;
            for (const int32_t ranks : {1, 2, 7, 1048576}) {
              ASSERT_TRUE(std::isfinite(model->StepSeconds(ranks, 10))) << samples << ' ' << step;
              ASSERT_TRUE(std::isfinite(model->Speed(ranks, 10))) << samples << ' ' << step;
              ASSERT_GE(model->Speed(ranks), 0) << samples << ' ' << step;
              ASSERT_GT(model->StepSeconds(ranks), 0) << samples << ' ' << step;
            }
          }
        }
      }
    }
  }
  EXPECT_GT(models, 1000u);
}

TEST(SpeedModel, AStepThatIsAllExchangeHasASpeed) {
  const SpeedSample one = {.ranks = 2, .samples = 1, .step_seconds = 1, .exchange_seconds = 7};
  const std::optional<SpeedModel> model = SpeedModel::Fit({&one, 1});
  ASSERT_TRUE(model.has_value());
  EXPECT_NEAR(model->StepSeconds(2), 1, 1e-9);
  EXPECT_GT(model->StepSeconds(1), 0) << "one rank alone computes something";
}

}  // namespace
}  // namespace harmonaize::daemon

#include "daemon/adaptation/training_advice.h"

#include <gtest/gtest.h>

#include <optional>

namespace harmonaize::daemon {
namespace {

/// A job of one backward pass a step, which waits for its exchange most of the time.
TrainingView SlowNetwork() {
  TrainingView view;
  view.terms.accumulation = ValueRange{1, 16};
  view.settings.accumulation = 1;
  view.times = {.step_seconds = 1, .exchange_seconds = 0.8};
  view.most_computation_seconds = 0.2;  // it was seen when the network was fast
  view.samples_per_step = 64;
  return view;
}

TEST(TrainingAdvice, TheSmallestValueIsTakenThatIsNearlyAsFast) {
  const std::optional<TrainingAdvice> advice = AdviseTraining(SlowNetwork());
  ASSERT_TRUE(advice.has_value());
  EXPECT_EQ(advice->setting, "accumulation");
  EXPECT_EQ(advice->from, 1);
  // r of 16 takes 0.2 + 0.8 / 16 = 0.25 s for each 64 samples, and r of 11 takes 0.273 s.
  EXPECT_EQ(advice->to, 11);
  EXPECT_NEAR(advice->gain, 1 / 0.2727, 0.01);
  EXPECT_NEAR(advice->expected_step.p50, 1 + 10 * 0.2, 1e-9);
  EXPECT_EQ(advice->learning_rate_factor, std::nullopt);
}

TEST(TrainingAdvice, WhatIsHiddenBehindComputationIsNotPromised) {
  TrainingView view = SlowNetwork();
  view.most_computation_seconds = 1;
  const std::optional<TrainingAdvice> advice = AdviseTraining(view);
  ASSERT_TRUE(advice.has_value());
  EXPECT_LT(advice->to, 11);
  EXPECT_LT(advice->gain, 1.7);
  EXPECT_NEAR(advice->expected_step.p10, 1 + (advice->to - 1) * 0.2, 1e-9);
  EXPECT_NEAR(advice->expected_step.p90, advice->to, 1e-9);
}

TEST(TrainingAdvice, AFastNetworkNeedsNoChange) {
  TrainingView view = SlowNetwork();
  view.times.exchange_seconds = 0.05;
  view.most_computation_seconds = 1;
  EXPECT_FALSE(AdviseTraining(view).has_value());
  view.times.step_seconds = 0;
  EXPECT_FALSE(AdviseTraining(view).has_value());
}

TEST(TrainingAdvice, SmallerValuesAreAdvisedOnceTheyDo) {
  TrainingView view = SlowNetwork();
  view.settings.accumulation = 11;
  view.times = {.step_seconds = 2.3, .exchange_seconds = 0.1};
  view.most_computation_seconds = 2.2;
  const std::optional<TrainingAdvice> advice = AdviseTraining(view);
  ASSERT_TRUE(advice.has_value());
  EXPECT_LE(advice->to, 5);
  EXPECT_GT(advice->gain, 0.85);
  EXPECT_LE(advice->gain, 1);
}

TEST(TrainingAdvice, AJobThatFollowsIsLeftAlone) {
  TrainingView view = SlowNetwork();
  view.settings.accumulation = 11;
  view.times = {.step_seconds = 3, .exchange_seconds = 0.8};
  view.most_computation_seconds = 2.2;
  EXPECT_FALSE(AdviseTraining(view).has_value());
}

TEST(TrainingAdvice, OnlyValuesThatTheJobTellsAreChanged) {
  TrainingView view = SlowNetwork();
  view.settings.accumulation.reset();
  EXPECT_FALSE(AdviseTraining(view).has_value());
  view.terms = {};
  view.settings.accumulation = 1;
  EXPECT_FALSE(AdviseTraining(view).has_value());
}

TEST(TrainingAdvice, ABatchBoundsTheAccumulation) {
  TrainingView view = SlowNetwork();
  view.terms.batch_size = ValueRange{1, 200};
  view.settings.batch_size = 64;
  const std::optional<TrainingAdvice> advice = AdviseTraining(view);
  ASSERT_TRUE(advice.has_value());
  EXPECT_EQ(advice->setting, "accumulation");
  EXPECT_EQ(advice->to, 3);

  view.terms.batch_size = ValueRange{1, 63};
  EXPECT_FALSE(AdviseTraining(view).has_value());
}

TEST(TrainingAdvice, BatchesAreChangedByPowersOfTwo) {
  TrainingView view = SlowNetwork();
  view.terms = {};
  view.terms.batch_size = ValueRange{16, 8192};
  view.settings.batch_size = 64;
  const std::optional<TrainingAdvice> advice = AdviseTraining(view);
  ASSERT_TRUE(advice.has_value());
  EXPECT_EQ(advice->setting, "batch_size");
  EXPECT_EQ(advice->to, 64 * 32);
}

TEST(TrainingAdvice, RarerExchangesMakeStepsShorter) {
  TrainingView view = SlowNetwork();
  view.terms = {};
  view.terms.synchronisation_interval = ValueRange{1, 8};
  view.terms.learning_rate_factor = ValueRange{0.5, 4};
  view.settings.synchronisation_interval = 1;
  const std::optional<TrainingAdvice> advice = AdviseTraining(view);
  ASSERT_TRUE(advice.has_value());
  EXPECT_EQ(advice->setting, "synchronisation_interval");
  EXPECT_EQ(advice->to, 6);
  EXPECT_NEAR(advice->expected_step.p50, 0.2 + 0.8 / 6, 1e-9);
  EXPECT_EQ(advice->learning_rate_factor, std::nullopt) << "as many samples in a step as before";
}

TEST(TrainingAdvice, TheLearningRateGoesWithTheSamples) {
  TrainingView view = SlowNetwork();
  view.terms.accumulation = ValueRange{1, 3};
  view.terms.learning_rate_factor = ValueRange{0.5, 4};
  EXPECT_EQ(AdviseTraining(view)->learning_rate_factor, 3);
  view.settings.learning_rate_factor = 2;
  EXPECT_EQ(AdviseTraining(view)->learning_rate_factor, 4) << "the range's most";
}

TEST(TrainingAdvice, ANoiseScaleWeighsSamplesOfLargeBatches) {
  TrainingView view = SlowNetwork();
  view.gradient_noise_scale = 64;
  const std::optional<TrainingAdvice> small = AdviseTraining(view);
  view.gradient_noise_scale = 1e6;
  const std::optional<TrainingAdvice> large = AdviseTraining(view);
  ASSERT_TRUE(small.has_value());
  ASSERT_TRUE(large.has_value());
  // By its derivative (0.2 + 0.8 / r) (1 + r) is least at r = 2.
  EXPECT_EQ(small->to, 2);
  EXPECT_GT(large->to, 11);
  EXPECT_LT(small->gain, large->gain);
}

TEST(TrainingAdvice, ADeadlineIsMetByTheSmallestValueThatDoes) {
  TrainingView view = SlowNetwork();
  view.needed_samples_per_second = 2 * 64;
  const std::optional<TrainingAdvice> advice = AdviseTraining(view);
  ASSERT_TRUE(advice.has_value());
  EXPECT_EQ(advice->to, 3);  // 64 samples in 0.467 s

  view.needed_samples_per_second = 32;
  EXPECT_FALSE(AdviseTraining(view).has_value()) << "it is met";

  view.needed_samples_per_second = 100 * 64;
  ASSERT_TRUE(AdviseTraining(view).has_value());
  EXPECT_EQ(AdviseTraining(view)->to, 11) << "nothing meets it";
}

}  // namespace
}  // namespace harmonaize::daemon

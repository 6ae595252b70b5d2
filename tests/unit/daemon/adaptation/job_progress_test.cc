#include "daemon/adaptation/job_progress.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

#include "daemon/jobs/exchange_time.h"

namespace harmonaize::daemon {
namespace {

TEST(JobProgress, TimesStepsByTheMedian) {
  JobProgress progress;
  EXPECT_FALSE(progress.StepSeconds().has_value());
  EXPECT_TRUE(progress.Take({.step = 10}, 100, 0));
  EXPECT_FALSE(progress.Take({.step = 10}, 101, 0)) << "of another rank";
  EXPECT_TRUE(progress.Take({.step = 11}, 102, 0));
  EXPECT_TRUE(progress.Take({.step = 15}, 110, 0));
  EXPECT_TRUE(progress.Take({.step = 16}, 150, 0));
  EXPECT_EQ(progress.StepSeconds(), 2);
  EXPECT_TRUE(progress.Take({.step = 3}, 200, 0)) << "from a checkpoint";
  EXPECT_FALSE(progress.StepSeconds().has_value());
  for (uint64_t step = 4; step < 1000; ++step)
    progress.Take({.step = step}, 200 + 0.5 * static_cast<double>(step), 0);
  EXPECT_DOUBLE_EQ(*progress.StepSeconds(), 0.5);
}

TEST(JobProgress, TellsForHowLongAChangeHeldTheJobUp) {
  JobProgress progress;
  for (uint64_t step = 1; step <= 5; ++step) {
    progress.Take({.step = step}, 10 + 2 * static_cast<double>(step), 0);
  }
  EXPECT_FALSE(progress.PauseSeconds().has_value());
  progress.BeginAnew();
  progress.BeginAnew();
  progress.Take({.step = 6}, 25, 0);
  EXPECT_EQ(progress.PauseSeconds(), 3) << "it would have told at 22";
  progress.Take({.step = 7}, 26, 0);
  progress.BeginAnew();
  progress.Take({.step = 8}, 40, 0);
  EXPECT_EQ(progress.PauseSeconds(), 3) << "how long its steps took was not known before this one";
}

/// Has a job do one step more, which takes so long.
void Step(JobProgress& progress, double accumulation, StepTimes times) {
  thread_local double now = 0;
  thread_local double exchange = 0;
  const uint64_t step = progress.last().has_value() ? progress.last()->step + 1 : 0;
  now += times.step_seconds;
  exchange += times.exchange_seconds;
  progress.Take({.step = step, .settings = {.accumulation = accumulation}}, now, exchange);
}

TEST(JobProgress, TimesOfTheNewestStepsAreOfTheirSettingsAlone) {
  JobProgress progress;
  for (int i = 0; i < 20; ++i) Step(progress, 1, {1, 0.25});
  ASSERT_TRUE(progress.RecentTimes().has_value());
  EXPECT_DOUBLE_EQ(progress.RecentTimes()->step_seconds, 1);
  EXPECT_DOUBLE_EQ(progress.RecentTimes()->exchange_seconds, 0.25);

  for (size_t i = 0; i < JobProgress::kRecent; ++i) Step(progress, 1, {2, 1.25});
  EXPECT_DOUBLE_EQ(progress.RecentTimes()->step_seconds, 2) << "soon after the network has changed";

  for (size_t i = 1; i < JobProgress::kFewestRecent; ++i) {
    Step(progress, 4, {5, 1.25});
    EXPECT_FALSE(progress.RecentTimes().has_value()) << i << " of the new settings";
  }
  Step(progress, 4, {50, 1.25});
  EXPECT_DOUBLE_EQ(progress.RecentTimes()->step_seconds, 5) << "one was held up";

  progress.BeginAnew();
  EXPECT_FALSE(progress.RecentTimes().has_value());
  ASSERT_TRUE(progress.last().has_value());
  EXPECT_EQ(progress.last()->settings.accumulation, 4);
}

TEST(JobProgress, SamplesOfAStepAreToldOrCounted) {
  JobProgress progress;
  EXPECT_FALSE(progress.SamplesOfStep().has_value());
  progress.Take({.step = 10, .samples = 640}, 1, 0);
  EXPECT_FALSE(progress.SamplesOfStep().has_value());
  progress.Take({.step = 12, .samples = 896}, 2, 0);
  EXPECT_EQ(progress.SamplesOfStep(), 128);
  progress.Take({.step = 13}, 3, 0);
  EXPECT_FALSE(progress.SamplesOfStep().has_value());
  progress.Take({.step = 14, .samples = 896}, 4, 0);
  progress.Take({.step = 15, .samples = 896}, 5, 0);
  EXPECT_FALSE(progress.SamplesOfStep().has_value()) << "no sample went by";
  progress.Take({.step = 16, .settings = {.batch_size = 32}}, 6, 0);
  EXPECT_EQ(progress.SamplesOfStep(), 32);
}

TEST(JobProgress, NoMoreIsExchangedThanThereIsTime) {
  JobProgress progress;
  for (int i = 0; i < 10; ++i) Step(progress, 1, {1, 3});
  EXPECT_DOUBLE_EQ(progress.RecentTimes()->exchange_seconds, 1);
}

TEST(ExchangeTime, CountsTimeInWhichSeveralOperationsAreUnderWayOnce) {
  ExchangeTime time;
  EXPECT_EQ(time.seconds(), 0);
  time.Add(1'000'000'000, 3'000'000'000);
  time.Add(2'000'000'000, 4'000'000'000);
  EXPECT_DOUBLE_EQ(time.seconds(), 3);
  time.Add(2'000'000'000, 3'500'000'000);
  EXPECT_DOUBLE_EQ(time.seconds(), 3) << "within what was counted";
  time.Add(9'000'000'000, 8'000'000'000);
  EXPECT_DOUBLE_EQ(time.seconds(), 3) << "clocks of two processors";
  time.Add(10'000'000'000, 11'000'000'000);
  EXPECT_DOUBLE_EQ(time.seconds(), 4);
}

}  // namespace
}  // namespace harmonaize::daemon

#include "daemon/sizing/speed_history.h"

#include <gtest/gtest.h>

#include <limits>

namespace harmonaize::daemon {
namespace {

TEST(SpeedHistory, KeepsTheNewestOfEachNumberOfRanks) {
  SpeedHistory history;
  history.Take({.ranks = 2, .samples = 64, .step_seconds = 1});
  history.Take({.ranks = 4, .samples = 64, .step_seconds = 0.6});
  history.Take({.ranks = 2, .samples = 64, .step_seconds = 1.5});
  ASSERT_EQ(history.seen().size(), 2u);
  EXPECT_EQ(history.seen().front().ranks, 4);
  EXPECT_EQ(history.seen().back().ranks, 2) << "the newest is the last";
  EXPECT_EQ(history.seen().back().step_seconds, 1.5);
}

TEST(SpeedHistory, ForgetsTheOldestOfMany) {
  SpeedHistory history;
  for (int ranks = 1; ranks <= 20; ++ranks) history.Take({.ranks = ranks, .step_seconds = 1});
  ASSERT_EQ(history.seen().size(), kMostSpeedsTold);
  EXPECT_EQ(history.seen().back().ranks, 20);
}

TEST(SpeedHistory, TakesNothingThatCannotBe) {
  SpeedHistory history;
  history.Take({.ranks = 0, .step_seconds = 1});
  history.Take({.ranks = 2, .samples = 0, .step_seconds = 1});
  history.Take({.ranks = 2, .step_seconds = 0});
  history.Take({.ranks = 2, .step_seconds = std::numeric_limits<double>::infinity()});
  history.Take({.ranks = 2, .step_seconds = 1, .exchange_seconds = 2});
  EXPECT_TRUE(history.seen().empty());
}

}  // namespace
}  // namespace harmonaize::daemon

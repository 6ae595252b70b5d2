#include "src/planner/host_costs.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <cmath>
#include <thread>

#include "src/planner/take_turns.h"

namespace harmonaize {
namespace {

constexpr size_t kLastLevelBytes = size_t{8} << 20;

/// Measures once. On a busy machine the values need not be plausible.
void ExpectAllMeasured() {
  const Result<HostCosts> costs = MeasureHostCosts(kLastLevelBytes, [] { return true; });
  ASSERT_TRUE(costs.ok()) << costs.status().message();
  for (const HostCostField& field : kHostCostFields) {
    EXPECT_GT((*costs).*field.value, 0) << field.name;
    EXPECT_TRUE(std::isfinite((*costs).*field.value)) << field.name;
  }
}

TEST(HostCosts, AreAllMeasured) {
  ExpectAllMeasured();
}

TEST(HostCosts, AreMeasuredOnOneProcessor) {
  // Threads inherit where they may run.
  std::thread([] {
    PinCallingThread(UsableProcessors().front());
    ExpectAllMeasured();
  }).join();
}

TEST(HostCosts, LeaveTheCallingThreadWhereItWas) {
  const std::vector<int> before = UsableProcessors();
  ASSERT_TRUE(MeasureHostCosts(kLastLevelBytes, [] { return true; }).ok());
  EXPECT_EQ(UsableProcessors(), before);
}

TEST(HostCosts, MeasuringEndsWhenItIsTold) {
  int asked = 0;
  const Result<HostCosts> costs = MeasureHostCosts(kLastLevelBytes, [&] { return ++asked < 3; });
  EXPECT_EQ(costs.status().code(), Code::kInProgress);
  EXPECT_EQ(asked, 3);
}

TEST(HostCosts, ArePlausibleWithinTheirBoundsAlone) {
  EXPECT_FALSE(Plausible(HostCosts()));
  EXPECT_TRUE(Plausible(TypicalCosts()));
  for (const HostCostField& field : kHostCostFields) {
    HostCosts costs = TypicalCosts();
    for (const double right : {field.least, field.most, field.typical}) {
      costs.*field.value = right;
      EXPECT_TRUE(Plausible(costs)) << field.name << " = " << right;
    }
    for (const double wrong :
         {0.0, -1.0, std::nan(""), HUGE_VAL, field.least / 2, field.most * 2}) {
      costs.*field.value = wrong;
      EXPECT_FALSE(Plausible(costs)) << field.name << " = " << wrong;
    }
  }
}

// A busy host showed these.
TEST(HostCosts, AreNotTheTurnsOfOtherPrograms) {
  HostCosts costs = TypicalCosts();
  for (double HostCosts::*const time :
       {&HostCosts::handoff_ns, &HostCosts::yield_ns, &HostCosts::wake_up_ns}) {
    costs = TypicalCosts();
    costs.*time = 2e6;
    EXPECT_FALSE(Plausible(costs));
  }
}

TEST(TakeTurns, AlternatesUntilTheFirstHasEnough) {
  int firsts = 0;
  int seconds = 0;
  TakeTurns(
      TwoProcessors::Usable(),
      [&] {
        ++firsts;
        EXPECT_EQ(seconds, firsts);
        return firsts < 1000;
      },
      [&] {
        EXPECT_EQ(seconds, firsts);
        ++seconds;
      });
  EXPECT_EQ(firsts, 1000);
  EXPECT_EQ(seconds, 1000);
}

}  // namespace
}  // namespace harmonaize

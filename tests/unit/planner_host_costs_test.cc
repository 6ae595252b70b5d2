#include <gtest/gtest.h>
#include <sched.h>

#include <cmath>
#include <thread>

#include "src/planner/host_costs.h"
#include "src/planner/take_turns.h"

namespace harmonaize {
namespace {

constexpr size_t kLastLevelBytes = size_t{8} << 20;

TEST(HostCosts, AreAllMeasured) {
  const Result<HostCosts> costs = MeasureHostCosts(kLastLevelBytes);
  ASSERT_TRUE(costs.ok()) << costs.status().message();
  EXPECT_TRUE(Plausible(*costs));
}

TEST(HostCosts, AreMeasuredOnOneProcessor) {
  // Threads inherit where they may run.
  std::thread([] {
    PinCallingThread(UsableProcessors().front());
    const Result<HostCosts> costs = MeasureHostCosts(kLastLevelBytes);
    ASSERT_TRUE(costs.ok()) << costs.status().message();
    EXPECT_TRUE(Plausible(*costs));
  }).join();
}

TEST(HostCosts, LeaveTheCallingThreadWhereItWas) {
  const std::vector<int> before = UsableProcessors();
  ASSERT_TRUE(MeasureHostCosts(kLastLevelBytes).ok());
  EXPECT_EQ(UsableProcessors(), before);
}

TEST(HostCosts, AreImplausibleWhenOneIsMissing) {
  HostCosts costs;
  EXPECT_FALSE(Plausible(costs));
  for (const HostCostField& field : kHostCostFields) costs.*field.value = 1;
  EXPECT_TRUE(Plausible(costs));
  for (const double wrong : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    for (const HostCostField& field : kHostCostFields) {
      HostCosts damaged = costs;
      damaged.*field.value = wrong;
      EXPECT_FALSE(Plausible(damaged)) << field.name << " = " << wrong;
    }
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

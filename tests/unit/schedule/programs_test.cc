#include "tests/unit/schedule/programs.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "src/schedule/algorithms/one_host.h"
#include "src/schedule/check/check.h"
#include "tests/unit/schedule/interpreter.h"

namespace harmonaize {
namespace {

const std::vector<std::vector<int>> kHosts = {
    {1, 1},    {2, 1},       {1, 3},       {2, 2},          {1, 1, 1},       {1, 2, 3},
    {3, 1, 1}, {4, 4, 4, 4}, {1, 2, 1, 4}, {1, 1, 1, 1, 1}, {2, 1, 3, 1, 2}, {8, 8, 8, 8, 8}};

void ExpectRight(const Schedule& schedule) {
  const Status status = Check(schedule);
  EXPECT_TRUE(status.ok()) << status.ToString() << "\n" << Describe(schedule);
  const auto wrong = RunOften(schedule, 20, 1);
  EXPECT_FALSE(wrong) << *wrong << "\n" << Describe(schedule);
}

TEST(MultiHostTest, RingsAndChainsAreRight) {
  for (const std::vector<int>& hosts : kHosts) {
    for (const bool in_place : {false, true}) {
      ExpectRight(RingAllReduce(hosts, in_place));
      ExpectRight(RingAllGather(hosts, in_place));
      ExpectRight(RingReduceScatter(hosts, in_place));
      ExpectRight(ChainAllReduce(hosts, in_place));
    }
  }
}

TEST(MultiHostTest, HostNumbersNeedNotBeDense) {
  Schedule schedule = RingAllReduce({1, 2}, false);
  for (int& host : schedule.host_of_rank) host = host == 0 ? 7 : 3;
  for (HostProgram& program : schedule.programs) {
    program.host = program.host == 0 ? 7 : 3;
    for (Step& step : program.steps) {
      if (step.peer_host >= 0) step.peer_host = step.peer_host == 0 ? 7 : 3;
    }
  }
  EXPECT_TRUE(Check(schedule).ok()) << Check(schedule).ToString();
}

TEST(MultiHostTest, OneSlotInARingIsADeadlock) {
  const Schedule schedule = RingReduceScatter({1, 1, 1}, false, 1);
  const std::string error = Check(schedule).message();
  EXPECT_NE(error.find("deadlock: the message from host "), std::string::npos) << error;
  EXPECT_TRUE(RunOften(schedule, 20, 1));
}

TEST(RankOrderTest, HoldsForChainsAndNotForRings) {
  EXPECT_TRUE(ReducesInRankOrder(ChainAllReduce({1, 2, 3}, false)));
  EXPECT_FALSE(ReducesInRankOrder(RingAllReduce({1, 1, 1}, false)));
  EXPECT_TRUE(ReducesInRankOrder(RingAllGather({1, 2}, false)));
}

TEST(RankOrderTest, IsTheOrderOfTheSources) {
  Schedule schedule = OneHost(Collective::kReduce, 2, 0, false);
  EXPECT_TRUE(ReducesInRankOrder(schedule));
  std::vector<Block>& sources = schedule.programs[0].steps[0].sources;
  std::swap(sources[0], sources[1]);
  ASSERT_TRUE(Check(schedule).ok());
  EXPECT_FALSE(ReducesInRankOrder(schedule));
}

TEST(RankOrderTest, NeedsALeftFoldNotJustAscendingRanks) {
  // (r0 + r1) + (r2 + r3) has the ranks in order, and another result in floating point.
  Schedule schedule = ChainAllReduce({2, 2}, false);
  HostProgram& upper = schedule.programs[1];
  for (Step& step : upper.steps) {
    for (int& before : step.after) ++before;
  }
  upper.steps.insert(upper.steps.begin(), Step{.kind = StepKind::kReduce,
                                               .sources = {InputBlock(2, 0), InputBlock(3, 0)},
                                               .destinations = {ScratchBlock(0)}});
  upper.steps[1].sources = {ScratchBlock(0)};
  upper.steps[1].after = {0};
  ASSERT_TRUE(Check(schedule).ok()) << Check(schedule).ToString();
  EXPECT_FALSE(ReducesInRankOrder(schedule));
}

TEST(RankOrderTest, IsFalseForWrongSchedules) {
  Schedule schedule = ChainAllReduce({1, 2}, false);
  schedule.programs[1].steps.pop_back();
  EXPECT_FALSE(ReducesInRankOrder(schedule));
}

}  // namespace
}  // namespace harmonaize

#include "src/schedule/algorithms/one_host.h"

#include <gtest/gtest.h>

#include <vector>

#include "src/schedule/check/check.h"
#include "tests/unit/schedule/interpreter.h"

namespace harmonaize {
namespace {

class OneHostTest : public testing::TestWithParam<Collective> {};

std::vector<int> Roots(Collective collective, int ranks) {
  if (!HasRoot(collective)) return {-1};
  std::vector<int> roots;
  for (int root = 0; root < ranks; ++root) roots.push_back(root);
  return roots;
}

TEST_P(OneHostTest, IsProvedForAllRankCountsRootsAndPlaces) {
  std::vector<int> rank_counts = {32, 64};
  for (int ranks = 1; ranks <= 16; ++ranks) rank_counts.push_back(ranks);
  for (const int ranks : rank_counts) {
    for (const int root : Roots(GetParam(), ranks)) {
      for (const bool in_place : {false, true}) {
        const Schedule schedule = OneHost(GetParam(), ranks, root, in_place);
        const Status status = Check(schedule);
        ASSERT_TRUE(status.ok()) << status.ToString() << "\n" << Describe(schedule);
        EXPECT_TRUE(ReducesInRankOrder(schedule));
      }
    }
  }
}

TEST_P(OneHostTest, RunsRight) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    for (const int root : Roots(GetParam(), ranks)) {
      for (const bool in_place : {false, true}) {
        const Schedule schedule = OneHost(GetParam(), ranks, root, in_place);
        const auto wrong = RunOften(schedule, 40, 1);
        ASSERT_FALSE(wrong) << *wrong << "\n" << Describe(schedule);
      }
    }
  }
}

TEST_P(OneHostTest, ReductionsAreReduceStepsEvenOfOneRank) {
  // A pre-multiplied sum of one contribution is not a copy of it.
  if (!Reduces(GetParam())) return;
  const Schedule schedule = OneHost(GetParam(), 1, 0, false);
  for (const Step& step : schedule.programs[0].steps) {
    EXPECT_EQ(step.kind, StepKind::kReduce);
  }
}

INSTANTIATE_TEST_SUITE_P(Collectives, OneHostTest,
                         testing::Values(Collective::kAllReduce, Collective::kReduce,
                                         Collective::kBroadcast, Collective::kAllGather,
                                         Collective::kReduceScatter, Collective::kAllToAll,
                                         Collective::kGather, Collective::kScatter,
                                         Collective::kSend, Collective::kReceive),
                         [](const auto& test) { return std::string(CollectiveName(test.param)); });

TEST(OneHostAllToAllTest, CopiesAreNotRightInPlace) {
  Schedule schedule = OneHost(Collective::kAllToAll, 3, -1, false);
  schedule.in_place = true;
  EXPECT_FALSE(Check(schedule).ok());
  EXPECT_TRUE(RunOften(schedule, 100, 1));
}

}  // namespace
}  // namespace harmonaize

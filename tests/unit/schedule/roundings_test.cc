#include "src/schedule/ir/roundings.h"

#include <gtest/gtest.h>

#include <vector>

#include "src/schedule/algorithms/algorithms.h"

namespace harmonaize {
namespace {

/// Returns the roundings of an all-reduce of `hosts` hosts with one rank each.
int RoundingsOf(const char* algorithm, int hosts, Collective collective = Collective::kAllReduce) {
  Problem problem;
  problem.collective = collective;
  for (int host = 0; host < hosts; ++host) problem.host_of_rank.push_back(host);
  if (HasRoot(collective)) problem.root = 0;
  const OutlineResult outline = FindAlgorithm(algorithm)->make(problem, {});
  EXPECT_TRUE(outline.ok()) << algorithm;
  const Result<int> roundings = MostRoundings((*outline)->Write());
  EXPECT_TRUE(roundings.ok()) << algorithm;
  return *roundings;
}

TEST(Roundings, AreOneForEachHostOfAChain) {
  EXPECT_EQ(RoundingsOf("ring", 2), 2);
  EXPECT_EQ(RoundingsOf("ring", 8), 8);
  EXPECT_EQ(RoundingsOf("ring", 8, Collective::kReduceScatter), 8);
  EXPECT_EQ(RoundingsOf("chain", 5), 5);
}

TEST(Roundings, AreFewInTreesThatAreLow) {
  EXPECT_EQ(RoundingsOf("halving-doubling", 8), 4);
  EXPECT_EQ(RoundingsOf("recursive-doubling", 8), 4);
  EXPECT_EQ(RoundingsOf("binomial-tree", 8), 4);
  EXPECT_EQ(RoundingsOf("double-binary-tree", 4), 3);
}

// What is not sent, nor a result, is not rounded: a root adds up what has come as it came.
TEST(Roundings, AreTwoWhereEachPieceIsReducedInOnePlace) {
  EXPECT_EQ(RoundingsOf("star", 8), 2);
  EXPECT_EQ(RoundingsOf("star", 8, Collective::kReduce), 2);
  EXPECT_EQ(RoundingsOf("rank-order-exchange", 8), 2);
}

// Of a host with a guest: the guest's data is rounded, the sum with it, and so on.
TEST(Roundings, AreOneMoreForGuests) {
  EXPECT_EQ(RoundingsOf("recursive-doubling", 4), 3);
  EXPECT_EQ(RoundingsOf("recursive-doubling", 5), 4);
}

TEST(ResultUse, TellsWhichResultsAreSent) {
  HostProgram program;
  program.scratch_blocks = 1;
  program.steps = {
      {.kind = StepKind::kReduce, .sources = {InputBlock(0, 0)}, .destinations = {ScratchBlock(0)}},
      {.kind = StepKind::kReceiveReduce,
       .sources = {ScratchBlock(0)},
       .destinations = {ScratchBlock(0)},
       .peer_host = 1,
       .after = {0}},
      {.kind = StepKind::kSend, .sources = {ScratchBlock(0)}, .peer_host = 2, .after = {1}},
  };
  const ResultUse use = UseOfResults(program);
  EXPECT_EQ(use.makers, (std::vector<std::vector<int>>{{-1}, {0}, {1}}));
  EXPECT_EQ(use.sent, (std::vector<bool>{false, true, false}));
}

}  // namespace
}  // namespace harmonaize

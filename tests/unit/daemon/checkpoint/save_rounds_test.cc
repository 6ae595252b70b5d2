#include "daemon/checkpoint/save_rounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace harmonaize::daemon {
namespace {

SaveRounds::Part APart(int rank, uint64_t round, uint64_t step) {
  return {.rank = rank, .round = round, .step = step, .bytes = 100};
}

TEST(SaveRounds, ARoundIsCompleteWithItsLastPart) {
  SaveRounds rounds(3);
  EXPECT_EQ(*rounds.Take(APart(2, 1, 50)), false);
  EXPECT_EQ(*rounds.Take(APart(0, 1, 50)), false);
  EXPECT_EQ(*rounds.Take(APart(0, 1, 50)), false) << "it came before";
  EXPECT_EQ(rounds.complete(), 0u);
  EXPECT_EQ(*rounds.Take(APart(1, 1, 50)), true);
  EXPECT_EQ(rounds.complete(), 1u);
  EXPECT_EQ(rounds.step(), 50u);
  EXPECT_EQ(rounds.bytes(), 300u);
  EXPECT_EQ(*rounds.Take(APart(1, 1, 50)), false) << "it came before";
}

TEST(SaveRounds, StepsMayGoBack) {
  SaveRounds rounds(1);
  EXPECT_TRUE(*rounds.Take(APart(0, 1, 50)));
  EXPECT_TRUE(*rounds.Take(APart(0, 2, 20)));
  EXPECT_EQ(rounds.step(), 20u);
}

TEST(SaveRounds, RanksThatDisagreeEndIt) {
  SaveRounds rounds(2);
  EXPECT_TRUE(rounds.Take(APart(0, 1, 50)).ok());
  const Result<bool> other = rounds.Take(APart(1, 1, 51));
  EXPECT_EQ(other.status().code(), Code::kInvalidUsage);
  EXPECT_NE(other.status().message().find("rank 0 saves step 50, rank 1 step 51"),
            std::string::npos);
  EXPECT_FALSE(rounds.failure().ok());
  EXPECT_FALSE(rounds.Take(APart(1, 1, 50)).ok()) << "for good";
}

TEST(SaveRounds, PartsOfRoundsThatCannotBeAreRefused) {
  SaveRounds rounds(2);
  EXPECT_FALSE(rounds.Take(APart(2, 1, 50)).ok());
  EXPECT_FALSE(rounds.Take(APart(-1, 1, 50)).ok());
  EXPECT_FALSE(rounds.Take(APart(0, 2, 50)).ok()) << "round 1 is not complete";
  EXPECT_TRUE(rounds.failure().ok()) << "others are not harmed by it";
  EXPECT_TRUE(rounds.Take(APart(0, 1, 50)).ok());
}

/// Ranks that begin a round once the one before is complete, in any order, with messages that come
/// twice: each round becomes complete once, when its last part has come.
TEST(SaveRounds, AnyOrderOfPartsCompletesEachRoundOnce) {
  std::mt19937 random(17);
  for (int trial = 0; trial < 200; ++trial) {
    const int ranks = 1 + static_cast<int>(random() % 6);
    SaveRounds rounds(ranks);
    for (uint64_t round = 1; round <= 5; ++round) {
      std::vector<int> order;
      for (int rank = 0; rank < ranks; ++rank) order.push_back(rank);
      std::shuffle(order.begin(), order.end(), random);
      for (int i = 0; i < ranks; ++i) {
        const bool is_last = i + 1 == ranks;
        ASSERT_EQ(*rounds.Take(APart(order[static_cast<size_t>(i)], round, round)), is_last);
        const int again = order[random() % static_cast<size_t>(i + 1)];
        ASSERT_EQ(*rounds.Take(APart(again, round, round)), false);
      }
      ASSERT_EQ(rounds.complete(), round);
    }
  }
}

}  // namespace
}  // namespace harmonaize::daemon

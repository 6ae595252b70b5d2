#include "daemon/diagnosis/shared_wait.h"

#include <gtest/gtest.h>

#include <vector>

namespace harmonaize::daemon {
namespace {

constexpr uint64_t kOneSecond = 1'000'000'000;
constexpr int kRanks = 6;

StandingMessage Waits(uint64_t waited_ms, std::vector<RankStanding> ranks = {}) {
  return {.name = "AllReduce #3",
          .waits = true,
          .under_way = ranks.empty(),
          .waited_ms = waited_ms,
          .ranks = std::move(ranks)};
}
WaitFact Fact(uint64_t now_ns) {
  return {.since_ns = now_ns, .all_posted = true};
}
bool NobodyIsSilent(int, uint64_t) {
  return false;
}

TEST(SharedWait, PutsTogetherWhatHostsSay) {
  SharedWait wait;
  wait.Note(0, Waits(2000, {{1, Awaited::kCall, Doing::kSleeping}}), 10 * kOneSecond);
  StandingMessage other = Waits(3000, {{4, Awaited::kStream, Doing::kUnknown}, {kRanks}});
  other.senders = {5, 0, 5};
  wait.Note(1, other, 10 * kOneSecond);
  WaitFact fact = Fact(10 * kOneSecond);
  EXPECT_TRUE(wait.AddTo(kRanks, NobodyIsSilent, &fact).empty());
  EXPECT_EQ(fact.operation, "AllReduce #3");
  EXPECT_EQ(fact.since_ns, 7 * kOneSecond) << "since the first rank waits";
  EXPECT_EQ(fact.still_since_ns, fact.since_ns);
  EXPECT_FALSE(fact.all_posted);
  EXPECT_EQ(fact.senders, (std::vector<int>{0, 5}));
  ASSERT_EQ(fact.awaited.size(), 2u) << "there is no rank 6";
  EXPECT_EQ(fact.awaited[0].rank, 1);
  EXPECT_EQ(fact.awaited[0].does.doing, Doing::kSleeping);
  EXPECT_EQ(fact.awaited[1].rank, 4);
}

// Others wait for rank 4 as well, but its own host has looked at it.
TEST(SharedWait, KeepsOfTwoWordsAboutARankTheOneThatKnowsMore) {
  SharedWait wait;
  wait.Note(0, Waits(1, {{4, Awaited::kCall, Doing::kUnknown}}), kOneSecond);
  wait.Note(1, Waits(1, {{4, Awaited::kCall, Doing::kStopped}}), kOneSecond);
  wait.Note(2, Waits(1, {{4, Awaited::kCall, Doing::kUnknown}}), kOneSecond);
  WaitFact fact = Fact(kOneSecond);
  wait.AddTo(kRanks, NobodyIsSilent, &fact);
  ASSERT_EQ(fact.awaited.size(), 1u);
  EXPECT_EQ(fact.awaited[0].does.doing, Doing::kStopped);
}

TEST(SharedWait, AsksAHostOnceAPeriodAndKnowsSinceWhenItHasNotAnswered) {
  SharedWait wait;
  wait.Note(0, Waits(1), 10 * kOneSecond);
  EXPECT_FALSE(wait.IsToBeAsked(0, 10 * kOneSecond, kOneSecond)) << "it has just spoken";
  EXPECT_TRUE(wait.IsToBeAsked(1, 10 * kOneSecond, kOneSecond));
  wait.NoteAsked(1, 10 * kOneSecond);
  EXPECT_FALSE(wait.IsToBeAsked(1, 10 * kOneSecond + 1, kOneSecond));
  EXPECT_TRUE(wait.IsToBeAsked(1, 11 * kOneSecond, kOneSecond));
  wait.NoteAsked(1, 11 * kOneSecond);
  std::vector<uint64_t> unanswered;
  const auto silent = [&](int, uint64_t since_ns) {
    unanswered.push_back(since_ns);
    return since_ns != 0;
  };
  WaitFact fact = Fact(12 * kOneSecond);
  EXPECT_EQ(wait.AddTo(kRanks, silent, &fact), std::vector<int>{1});
  EXPECT_EQ(unanswered, (std::vector<uint64_t>{0, 10 * kOneSecond})) << "since the first question";
  wait.Note(1, Waits(1), 12 * kOneSecond);
  EXPECT_TRUE(wait.AddTo(kRanks, silent, &fact).empty());
}

TEST(SharedWait, AHostThatHasNotSpokenMayNotHavePostedIt) {
  SharedWait wait;
  wait.Note(0, Waits(1), kOneSecond);
  WaitFact fact = Fact(kOneSecond);
  wait.AddTo(kRanks, NobodyIsSilent, &fact);
  EXPECT_TRUE(fact.all_posted);
  EXPECT_TRUE(wait.IsToBeAsked(1, kOneSecond, kOneSecond));
  wait.AddTo(kRanks, NobodyIsSilent, &fact);
  EXPECT_FALSE(fact.all_posted);
}

TEST(SharedWait, OldWordsDoNotTellThatRanksWait) {
  SharedWait wait;
  wait.Note(1, Waits(1), 10 * kOneSecond);
  EXPECT_TRUE(wait.AnyWaits(0, 12 * kOneSecond, 2 * kOneSecond));
  EXPECT_FALSE(wait.AnyWaits(0, 12 * kOneSecond + 1, 2 * kOneSecond));
  EXPECT_TRUE(wait.AnyWaits(1, 10 * kOneSecond, 2 * kOneSecond));
  EXPECT_FALSE(wait.AnyWaits(1, 10 * kOneSecond + 1, 2 * kOneSecond)) << "the home knows its own";
  EXPECT_TRUE(wait.HasSpokenAt(1, 10 * kOneSecond));
  EXPECT_FALSE(wait.HasSpokenAt(0, 10 * kOneSecond));
}

}  // namespace
}  // namespace harmonaize::daemon

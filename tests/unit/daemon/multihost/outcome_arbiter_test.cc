#include "daemon/multihost/outcome_arbiter.h"

#include <gtest/gtest.h>

#include <set>

#include "src/base/collective.h"
#include "src/numerics/types.h"

namespace harmonaize::daemon {
namespace {

using State = HostProgress;

RankRequest Request(int rank, uint64_t count = 8, int root = -1) {
  return {.rank = rank,
          .collective = root < 0 ? Collective::kAllReduce : Collective::kBroadcast,
          .count = count,
          .type = DataType::kFloat32,
          .op = ReduceOperator::kSum,
          .root = root};
}

ProgressMessage Progress(State state, int rank, uint64_t count = 8, int root = -1) {
  return {.sequence = 3, .state = state, .requests = {Request(rank, count, root)}};
}
ProgressMessage Waiting(std::vector<int> missing) {
  return {.sequence = 3, .state = State::kWaiting, .missing = std::move(missing)};
}
ProgressMessage Failed(int rank, Code code, const std::string& why) {
  ProgressMessage progress = Progress(State::kFailed, rank);
  progress.status = Status(code, why);
  return progress;
}

class OutcomeArbiterTest : public ::testing::Test {
 protected:
  std::set<int> gone_;
  OutcomeArbiter arbiter_{3, [this](int host) { return gone_.contains(host); }};

  OutcomeArbiter::Outcome Take(int host, const ProgressMessage& progress) {
    return arbiter_.Take(host, progress, 1);
  }
};

TEST_F(OutcomeArbiterTest, TheFirstReportMakesItAskTheOthersOnce) {
  OutcomeArbiter::Outcome outcome = Take(1, Progress(State::kRunning, 1));
  EXPECT_EQ(outcome.ask, (std::vector<int>{0, 2}));
  EXPECT_TRUE(outcome.verdict.ok() && outcome.breaks.ok());
  EXPECT_EQ(arbiter_.open(), 1u);
  EXPECT_TRUE(Take(0, Progress(State::kRunning, 0)).ask.empty());
  EXPECT_TRUE(Take(1, Progress(State::kDone, 1)).ask.empty());
  EXPECT_TRUE(Take(0, Progress(State::kDone, 0)).ask.empty());
  EXPECT_TRUE(Take(2, Progress(State::kDone, 2)).ask.empty());
  EXPECT_EQ(arbiter_.open(), 0u);
}

TEST_F(OutcomeArbiterTest, RanksThatDisagreedLongAgoFailAllTheSame) {
  const ProgressMessage forgotten{.sequence = 3, .state = State::kDone};
  arbiter_.NoteDisagreement(3);
  EXPECT_TRUE(Take(0, forgotten).verdict.ok());
  EXPECT_TRUE(Take(2, forgotten).verdict.ok());
  EXPECT_EQ(arbiter_.open(), 1u);
  EXPECT_EQ(Take(1, forgotten).verdict.code(), Code::kInvalidUsage);
  EXPECT_EQ(arbiter_.open(), 0u);
  // If a host remembers what its ranks asked for, all are told that.
  arbiter_.NoteDisagreement(3);
  Take(2, forgotten);
  Take(0, Progress(State::kDone, 0, 8, 0));
  const Status verdict = Take(1, Progress(State::kDone, 1, 8, 1)).verdict;
  EXPECT_NE(verdict.message().find("root 1"), std::string::npos) << verdict.message();
}

TEST_F(OutcomeArbiterTest, HostsThatAreGoneAreNotAskedAndNotWaitedFor) {
  gone_ = {2};
  EXPECT_EQ(Take(1, Progress(State::kRunning, 1)).ask, (std::vector<int>{0}));
  Take(0, Progress(State::kDone, 0));
  Take(1, Progress(State::kDone, 1));
  EXPECT_EQ(arbiter_.open(), 0u);
}

TEST_F(OutcomeArbiterTest, RanksThatDisagreeAreNamedInOrder) {
  gone_ = {1};
  Take(2, Progress(State::kRunning, 5));
  const OutcomeArbiter::Outcome outcome = Take(0, Progress(State::kRunning, 1, 7));
  EXPECT_EQ(outcome.verdict.code(), Code::kInvalidUsage);
  EXPECT_EQ(outcome.verdict.message(),
            "the ranks disagree about operation #3: rank 1 asked for AllReduce(7 x float32, sum); "
            "rank 5 asked for AllReduce(8 x float32, sum)");
  EXPECT_EQ(arbiter_.open(), 0u);
  // A verdict comes once.
  EXPECT_TRUE(Take(1, Progress(State::kRunning, 3, 9)).verdict.ok());
}

// Ranks 0 and 1 of host 0 disagree. Which of them is wrong say the others.
TEST_F(OutcomeArbiterTest, RanksThatDisagreeAreToldOnceAllHostsWereHeard) {
  ProgressMessage failed = Failed(0, Code::kInvalidUsage, "they disagree");
  failed.requests.push_back(Request(1, 7));
  const OutcomeArbiter::Outcome first = Take(0, failed);
  EXPECT_TRUE(first.verdict.ok());
  EXPECT_FALSE(first.mismatch.has_value());
  EXPECT_EQ(first.ask, (std::vector<int>{1, 2}));
  EXPECT_TRUE(arbiter_.settles());
  EXPECT_EQ(arbiter_.open(), 1u);
  EXPECT_TRUE(Take(1, Progress(State::kRunning, 3)).verdict.ok());
  const OutcomeArbiter::Outcome last = Take(2, Progress(State::kRunning, 5));
  EXPECT_EQ(last.verdict.code(), Code::kInvalidUsage);
  ASSERT_TRUE(last.mismatch.has_value());
  EXPECT_EQ(last.mismatch->asked.size(), 4u);
  EXPECT_FALSE(arbiter_.settles());
}

TEST_F(OutcomeArbiterTest, RanksThatDisagreeDoNotWaitForLongForOtherHosts) {
  constexpr uint64_t kSettle = OutcomeArbiter::kSettleNanoseconds;
  Take(2, Progress(State::kRunning, 5));
  Take(0, Progress(State::kRunning, 1, 7));
  EXPECT_TRUE(Take(1, Waiting({2, 3})).verdict.ok()) << "no rank of host 1 has come";
  auto looked = arbiter_.Settle(kSettle);
  ASSERT_EQ(looked.size(), 1u);
  EXPECT_EQ(looked[0].sequence, 3u);
  EXPECT_TRUE(looked[0].outcome.verdict.ok());
  EXPECT_EQ(looked[0].outcome.ask, (std::vector<int>{1}));
  looked = arbiter_.Settle(kSettle + 1);
  ASSERT_EQ(looked.size(), 1u);
  EXPECT_EQ(looked[0].outcome.verdict.code(), Code::kInvalidUsage);
  EXPECT_EQ(looked[0].outcome.mismatch->asked.size(), 2u);
  EXPECT_TRUE(arbiter_.Settle(2 * kSettle).empty()) << "a verdict comes once";
}

TEST_F(OutcomeArbiterTest, RanksThatDisagreeDoNotWaitForAHostThatLeaves) {
  Take(2, Progress(State::kRunning, 5));
  EXPECT_TRUE(Take(0, Progress(State::kRunning, 1, 7)).verdict.ok());
  gone_ = {1};
  EXPECT_FALSE(arbiter_.LookAgain(0, 1)->outcome.verdict.ok());
}

TEST_F(OutcomeArbiterTest, WhatEndsSinceARankLeftIsNotWaitedFor) {
  Take(2, Progress(State::kRunning, 5));
  Take(0, Progress(State::kRunning, 1, 7));
  EXPECT_TRUE(arbiter_.settles());
  const std::vector<Mismatch> unsettled = arbiter_.EndFrom(3);
  EXPECT_FALSE(arbiter_.settles());
  ASSERT_EQ(unsettled.size(), 1u) << "what the ranks disagreed about is told all the same";
  EXPECT_EQ(unsettled[0].sequence, 3u);
  EXPECT_EQ(unsettled[0].asked.size(), 2u);
  EXPECT_TRUE(arbiter_.EndFrom(0).empty()) << "it is told once";
  EXPECT_TRUE(arbiter_.Settle(OutcomeArbiter::kSettleNanoseconds + 1).empty());
}

TEST_F(OutcomeArbiterTest, AnEndTellsOfNoDisagreementThatWasToldOrThatIsNone) {
  Take(0, Progress(State::kRunning, 0));
  Take(1, Progress(State::kRunning, 1));
  EXPECT_TRUE(arbiter_.EndFrom(4).empty()) << "an earlier collective";
  EXPECT_TRUE(arbiter_.EndFrom(3).empty()) << "they agree";
  OutcomeArbiter told{2, [](int) { return false; }};
  told.Take(0, Progress(State::kRunning, 0), 1);
  EXPECT_TRUE(told.Take(1, Progress(State::kRunning, 1, 9), 1).mismatch.has_value());
  EXPECT_TRUE(told.EndFrom(0).empty());
}

TEST_F(OutcomeArbiterTest, AHostThatIsDoneMayDisagreeToo) {
  gone_ = {1};
  Take(2, Progress(State::kRunning, 5, 8, 0));
  EXPECT_FALSE(Take(0, Progress(State::kDone, 1, 8, 1)).verdict.ok());
}

TEST_F(OutcomeArbiterTest, AHostWhoseRanksWaitMayDisagreeToo) {
  gone_ = {1};
  Take(2, Progress(State::kRunning, 5));
  ProgressMessage waiting = Waiting({0});
  waiting.requests = {Request(1, 9)};
  EXPECT_FALSE(Take(0, waiting).verdict.ok());
}

TEST_F(OutcomeArbiterTest, WhatAHostHasMetByItselfIsTheVerdictAtOnce) {
  const OutcomeArbiter::Outcome outcome =
      Take(1, Failed(1, Code::kInvalidArgument, "the send buffer of rank 1"));
  EXPECT_EQ(outcome.verdict.code(), Code::kInvalidArgument);
  EXPECT_EQ(outcome.verdict.message(), "the send buffer of rank 1");
}

TEST_F(OutcomeArbiterTest, ATransportsFailureBreaksWhenAllWereHeardAndAgree) {
  EXPECT_TRUE(Take(1, Failed(1, Code::kRemoteError, "lost")).breaks.ok());
  EXPECT_TRUE(Take(0, Progress(State::kRunning, 0)).breaks.ok());
  EXPECT_EQ(Take(2, Progress(State::kDone, 2)).breaks.message(), "lost");
}

TEST_F(OutcomeArbiterTest, ATransportsFailureWaitsForRanksThatHaveNotCome) {
  Take(1, Failed(1, Code::kRemoteError, "lost"));
  Take(0, Waiting({0}));
  EXPECT_TRUE(Take(2, Progress(State::kRunning, 2)).breaks.ok());
  EXPECT_FALSE(Take(0, Progress(State::kRunning, 0)).breaks.ok());
}

// Host 0 ran when it was asked. Then it met a bad buffer, which ended its messages with host 1.
// Host 1 tells of that first.
TEST_F(OutcomeArbiterTest, WhoRanWhenATransportFailedIsAskedAnew) {
  Take(2, Progress(State::kRunning, 2));
  Take(0, Progress(State::kRunning, 0));
  const OutcomeArbiter::Outcome outcome = Take(1, Failed(1, Code::kRemoteError, "lost"));
  EXPECT_TRUE(outcome.breaks.ok());
  EXPECT_EQ(outcome.ask, (std::vector<int>{0, 2}));
  EXPECT_TRUE(Take(2, Progress(State::kRunning, 2)).breaks.ok());
  const OutcomeArbiter::Outcome end = Take(0, Failed(0, Code::kInvalidArgument, "a bad buffer"));
  EXPECT_TRUE(end.breaks.ok());
  EXPECT_EQ(end.verdict.message(), "a bad buffer");
}

TEST_F(OutcomeArbiterTest, WhatAHostHasMetGoesBeforeWhatTransportsHave) {
  Take(0, Failed(0, Code::kRemoteError, "lost"));
  const OutcomeArbiter::Outcome end = Take(1, Failed(1, Code::kInvalidArgument, "a bad buffer"));
  EXPECT_EQ(end.verdict.message(), "a bad buffer");
}

TEST_F(OutcomeArbiterTest, AHostThatLeavesMayHaveBeenTheLastToBeHeard) {
  Take(1, Failed(1, Code::kRemoteError, "lost"));
  Take(0, Progress(State::kRunning, 0));
  EXPECT_FALSE(arbiter_.LookAgain(4, 1).has_value());
  EXPECT_TRUE(arbiter_.LookAgain(0, 1)->outcome.breaks.ok());
  gone_ = {2};
  const auto looked = arbiter_.LookAgain(0, 1);
  ASSERT_TRUE(looked.has_value());
  EXPECT_EQ(looked->sequence, 3u);
  EXPECT_EQ(looked->outcome.breaks.message(), "lost");
  EXPECT_TRUE(arbiter_.LookAgain(0, 1)->outcome.breaks.ok());  // was told
}

TEST_F(OutcomeArbiterTest, WhatAllHostsThatAreLeftHaveDoneIsForgottenAtALook) {
  Take(1, Progress(State::kDone, 1));
  Take(0, Progress(State::kDone, 0));
  EXPECT_EQ(arbiter_.open(), 1u);
  gone_ = {2};
  EXPECT_TRUE(arbiter_.LookAgain(0, 1).has_value());
  EXPECT_EQ(arbiter_.open(), 0u);
  EXPECT_FALSE(arbiter_.LookAgain(0, 1).has_value());
}

TEST_F(OutcomeArbiterTest, WhatEndsSinceARankLeftIsForgotten) {
  Take(1, Progress(State::kRunning, 1));
  arbiter_.EndFrom(3);
  EXPECT_EQ(arbiter_.open(), 0u);
  EXPECT_TRUE(Take(0, Failed(0, Code::kRemoteError, "lost")).ask.empty());
  EXPECT_EQ(arbiter_.open(), 0u);
  EXPECT_TRUE(arbiter_.Late(1'000'000'000, 1).empty());
  ProgressMessage before = Progress(State::kRunning, 1);
  before.sequence = 2;
  EXPECT_FALSE(Take(0, before).ask.empty());
}

TEST_F(OutcomeArbiterTest, LateRanksAreNamedOnceTheHostsWereAskedAnew) {
  Take(1, Progress(State::kRunning, 1));
  Take(0, Waiting({0, 4}));
  Take(2, Waiting({2}));
  EXPECT_TRUE(arbiter_.Late(100, 200).empty());
  auto late = arbiter_.Late(300, 200);
  ASSERT_EQ(late.size(), 1u);
  EXPECT_EQ(late[0].notice, "");
  EXPECT_EQ(late[0].ask, (std::vector<int>{0, 2}));
  // Rank 4 and rank 2 have come meanwhile.
  Take(0, Waiting({0}));
  Take(2, Progress(State::kRunning, 2));
  late = arbiter_.Late(2'000'000'001, 200);
  ASSERT_EQ(late.size(), 1u);
  EXPECT_EQ(late[0].notice, "AllReduce #3 has waited 2.0 s for rank 0");
  EXPECT_EQ(late[0].missing, (std::vector<int>{0}));
  // An operation is not told again before it has waited twice as long.
  EXPECT_TRUE(arbiter_.Late(3'000'000'000, 200).empty());
  EXPECT_FALSE(arbiter_.Late(4'100'000'000, 200).empty());
  EXPECT_FALSE(arbiter_.Late(4'200'000'000, 200).empty());
}

TEST_F(OutcomeArbiterTest, RanksThatHaveCalledAreToldFromThoseThatHaveNot) {
  const auto notice = [&](std::vector<int> missing, std::vector<int> queued) {
    OutcomeArbiter agreement(2, [](int) { return false; });
    ProgressMessage waiting = Waiting(std::move(missing));
    waiting.queued = std::move(queued);
    agreement.Take(0, Progress(State::kRunning, 0), 1);
    agreement.Take(1, waiting, 1);
    agreement.Late(300, 200);
    agreement.Take(1, waiting, 1);
    const auto late = agreement.Late(2'000'000'001, 200);
    return late.empty() ? "" : late[0].notice;
  };
  EXPECT_EQ(notice({2}, {}), "AllReduce #3 has waited 2.0 s for rank 2");
  EXPECT_EQ(
      notice({}, {3}),
      "AllReduce #3 has waited 2.0 s for rank 3 whose stream is busy with earlier operations");
  EXPECT_EQ(notice({5, 2}, {4, 3}),
            "AllReduce #3 has waited 2.0 s for ranks 2, 5, and ranks 3, 4 whose streams are busy "
            "with earlier operations");
  EXPECT_EQ(notice({}, {}), "");
}

TEST_F(OutcomeArbiterTest, OfManyRanksSomeAreNamed) {
  ProgressMessage many = Progress(State::kFailed, 0);
  many.status = InvalidUsage("they disagree");
  for (int rank = 1; rank < 10000; ++rank) {
    many.requests.push_back(Request(rank, static_cast<uint64_t>(rank)));
  }
  EXPECT_LT(Take(0, many).verdict.message().size(), 4096u);
}

TEST_F(OutcomeArbiterTest, ManyCasesDoNotPileUp) {
  for (uint64_t sequence = 0; sequence < 5000; ++sequence) {
    ProgressMessage progress = Progress(State::kRunning, 0);
    progress.sequence = sequence;
    Take(0, progress);
  }
  EXPECT_LE(arbiter_.open(), 1024u);
}

}  // namespace
}  // namespace harmonaize::daemon

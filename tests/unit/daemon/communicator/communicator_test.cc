// One communicator of one host.

#include "daemon/communicator/communicator.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/base/clock.h"
#include "tests/unit/daemon/communicator/communicator_fixture.h"

namespace harmonaize::daemon {
namespace {

constexpr uint64_t kLateAfter = 1'000'000'000;

class CommunicatorTest : public CommunicatorFixture {
 protected:
  CommunicatorTest() { Make(2, {0, 1}); }
};

TEST_F(CommunicatorTest, CarriesOutWhatAllRanksHavePosted) {
  for (int i = 0; i < kElements; ++i) {
    data_[0][i] = static_cast<float>(i);
    data_[1][i] = 1000;
  }
  PostAllReduce(0);
  EXPECT_FALSE(communicator_->executing());
  EXPECT_TRUE(waiting_.any());
  PostAllReduce(1);
  EXPECT_FALSE(waiting_.any());
  Run();
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(outstanding(rank), 0);
    for (int i = 0; i < kElements; ++i) ASSERT_EQ(data_[rank][kElements + i], 1000.0f + i);
  }
  EXPECT_EQ(communicator_->operations(), 1u);
  EXPECT_EQ(communicator_->bytes(), kElements * sizeof(float));
  EXPECT_TRUE(recorder_.heard.empty());
}

TEST_F(CommunicatorTest, ALateRankIsNamedAndItsComingIsHeardOf) {
  PostAllReduce(0);
  const uint64_t now = MonotonicNanoseconds();
  communicator_->ReportLate(now, kLateAfter);
  EXPECT_TRUE(recorder_.heard.empty());
  communicator_->ReportLate(now + kLateAfter, kLateAfter);
  ASSERT_EQ(recorder_.heard.size(), 1u);
  ExpectIn("for rank 1 (process ", recorder_.heard[0]);
  ExpectIn("for rank 1 (process ", members_[0]->slot->notice.Get());
  // The next report comes after twice as long a wait.
  communicator_->ReportLate(now + kLateAfter + kLateAfter / 2, kLateAfter);
  EXPECT_EQ(recorder_.heard.size(), 1u);
  communicator_->ReportLate(now + 2 * kLateAfter + kLateAfter / 2, kLateAfter);
  EXPECT_EQ(recorder_.heard.size(), 2u);
  const WaitingOperations waiting = communicator_->Waiting(now + kLateAfter);
  ASSERT_EQ(waiting.listed.size(), 1u);
  EXPECT_EQ(waiting.listed[0].missing_ranks, std::vector<int>{1});

  PostAllReduce(1);
  ASSERT_EQ(recorder_.heard.size(), 3u);
  EXPECT_EQ(recorder_.heard[2], "recovered");
  Run();
  PostAllReduce(0);
  PostAllReduce(1);
  Run();
  EXPECT_EQ(recorder_.heard.size(), 3u);
}

TEST_F(CommunicatorTest, RanksThatDisagreeAllLearnWhatEachAskedFor) {
  PostAllReduce(0);
  PostAllReduce(1, kElements / 2);
  Run();
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(outstanding(rank), 0);
    ExpectIn("the ranks disagree about operation #0", ErrorOf(rank));
    ExpectIn("rank 1 asked for", ErrorOf(rank));
  }
  EXPECT_EQ(communicator_->operations(), 0u);
  EXPECT_EQ(communicator_->state(), Communicator::State::kReady);
}

TEST_F(CommunicatorTest, WhatWaitsForARankThatLeavesFails) {
  PostAllReduce(0);
  communicator_->Leave(1);
  Run();
  EXPECT_EQ(outstanding(0), 0);
  EXPECT_FALSE(waiting_.any());
  ExpectIn("has left the communicator", ErrorOf(0));
  EXPECT_FALSE(communicator_->all_left());
  communicator_->Leave(0);
  EXPECT_TRUE(communicator_->all_left());
}

TEST_F(CommunicatorTest, BreakingEndsWhatWaitsAndWhatRuns) {
  PostAllReduce(0);
  PostAllReduce(1);  // runs
  PostAllReduce(0);  // waits, for its stream
  PostSend(1, 0);
  communicator_->Break(RemoteError("rank 1 is lost"));
  communicator_->Break(RemoteError("and again"));
  Run();
  EXPECT_EQ(recorder_.heard, std::vector<std::string>{"broken: rank 1 is lost"});
  EXPECT_FALSE(communicator_->executing());
  EXPECT_FALSE(waiting_.any());
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(outstanding(rank), 0);
    EXPECT_EQ(ErrorOf(rank), "rank 1 is lost");
  }
  EXPECT_EQ(communicator_->operations(), 0u);
}

TEST_F(CommunicatorTest, GivingUpCutsOffTheSessionsOfAllRanks) {
  communicator_->GiveUp(InternalError("an exception"));
  ASSERT_EQ(keeper_.cut_off.size(), 2u);
  EXPECT_EQ(keeper_.cut_off[0].first, 1u);
  EXPECT_EQ(keeper_.cut_off[1].first, 2u);
}

TEST_F(CommunicatorTest, CallsThatComeTooLateAreNotMade) {
  int calls = 0;
  communicator_->CallSoon([&] { ++calls; });
  loop_->RunPosted();
  EXPECT_EQ(calls, 1);
  communicator_->CallSoon([&] { ++calls; });
  communicator_.reset();
  loop_->RunPosted();
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace harmonaize::daemon

#include "daemon/multihost/start_confirmation.h"

#include <gtest/gtest.h>

namespace harmonaize::daemon {
namespace {

using Outcome = StartConfirmations::Outcome;

TEST(StartConfirmations, AllHostsHaveToBeginTheSame) {
  StartConfirmations confirmations(3);
  EXPECT_EQ(confirmations.Take(2, {5, 77}), Outcome::kWaiting);
  EXPECT_EQ(confirmations.Take(0, {5, 77}), Outcome::kWaiting);
  EXPECT_EQ(confirmations.Take(0, {6, 78}), Outcome::kWaiting);  // one host may be ahead
  EXPECT_EQ(confirmations.Take(1, {5, 77}), Outcome::kAll);
  EXPECT_EQ(confirmations.Take(1, {6, 78}), Outcome::kWaiting);
  EXPECT_EQ(confirmations.Take(2, {6, 78}), Outcome::kAll);
}

TEST(StartConfirmations, OneThatDiffersIsToldOnce) {
  StartConfirmations confirmations(3);
  EXPECT_EQ(confirmations.Take(0, {0, 1}), Outcome::kWaiting);
  EXPECT_EQ(confirmations.Take(1, {0, 2}), Outcome::kDisagree);
  EXPECT_EQ(confirmations.Take(2, {0, 1}), Outcome::kWaiting);
  confirmations.Forget(0);
  EXPECT_EQ(confirmations.Take(2, {0, 1}), Outcome::kWaiting);
}

TEST(StartConfirmations, WhatEndsOtherwiseIsForgotten) {
  StartConfirmations confirmations(2);
  for (uint64_t sequence = 0; sequence < 4; ++sequence) {
    EXPECT_EQ(confirmations.Take(0, {sequence, 1}), Outcome::kWaiting);
  }
  confirmations.EndFrom(2);
  EXPECT_EQ(confirmations.Take(1, {1, 1}), Outcome::kAll);
  EXPECT_EQ(confirmations.Take(1, {2, 1}), Outcome::kWaiting);
}

TEST(StartConfirmations, WhoAsksIsToldWhenAllHaveComeAsFar) {
  using Hosts = std::vector<int>;
  StartConfirmations confirmations(2);
  for (uint64_t sequence = 3; sequence < 6; ++sequence) confirmations.Take(0, {sequence, 1});
  confirmations.Ask(0, 5);
  EXPECT_EQ(confirmations.TakeListeners(), Hosts{});
  confirmations.Take(1, {3, 1});
  confirmations.Ask(1, 3);
  EXPECT_EQ(confirmations.TakeListeners(), Hosts{1});
  EXPECT_EQ(confirmations.agreed(), 3u);
  confirmations.Take(1, {4, 1});
  EXPECT_EQ(confirmations.TakeListeners(), Hosts{});
  confirmations.Take(1, {5, 1});
  EXPECT_EQ(confirmations.TakeListeners(), Hosts{0});
  EXPECT_EQ(confirmations.agreed(), 5u);
  EXPECT_EQ(confirmations.TakeListeners(), Hosts{});
}

TEST(StartConfirmations, AllAreToldNowAndThen) {
  StartConfirmations confirmations(2);
  size_t told = 0;
  for (uint64_t sequence = 0; sequence < 1000; ++sequence) {
    confirmations.Take(0, {sequence, 1});
    confirmations.Take(1, {sequence, 1});
    told += confirmations.TakeListeners().size();
  }
  EXPECT_GT(told, 10u);
  EXPECT_LT(told, 200u);
}

TEST(StartConfirmations, WhatCameBeforeIsAgreedOn) {
  StartConfirmations confirmations(2);
  confirmations.Take(0, {3, 1});
  confirmations.Take(0, {4, 1});
  confirmations.Ask(0, 4);
  // Ranks of host 1 were at something else at 3, which ended otherwise.
  confirmations.Forget(3);
  confirmations.Take(1, {4, 1});
  EXPECT_EQ(confirmations.TakeListeners(), std::vector<int>{0});
}

// Each host waits for what the others are ahead by, and none can be told of all: all go on
// nevertheless.
TEST(StartConfirmations, HostsThatAreAtTheSameNeverStop) {
  StartConfirmations confirmations(2);
  UnconfirmedStarts awaited[2];
  for (uint64_t sequence = 0; sequence < 10000; ++sequence) {
    for (const int host : {0, 1}) {
      awaited[host].Begin({sequence, 1});
      ASSERT_TRUE(awaited[host].may_end()) << sequence;
      if (!awaited[host].due(sequence)) continue;
      for (const BegunCollective& one : awaited[host].TakeUntold()) confirmations.Take(host, one);
      for (const int listener : confirmations.TakeListeners())
        awaited[listener].Agree(confirmations.agreed());
    }
  }
}

TEST(UnconfirmedStarts, AHostMayBeAheadALittle) {
  UnconfirmedStarts awaited;
  EXPECT_FALSE(awaited.anything_to_tell());
  uint64_t sequence = 0;
  size_t told = 0;
  while (awaited.may_end()) {
    ASSERT_LT(sequence, 1000u);
    awaited.Begin({sequence++, 7});
    if (awaited.due(sequence - 1)) told += awaited.TakeUntold().size();
  }
  EXPECT_GT(sequence, 16u);
  EXPECT_GT(told, 0u);  // the home's answer can come before the host has to stop
  awaited.Agree(sequence - 2);
  EXPECT_TRUE(awaited.may_end());
  const std::vector<BegunCollective> rest = awaited.TakeUntold();
  EXPECT_EQ(told + rest.size(), sequence);
  EXPECT_FALSE(awaited.anything_to_tell());
}

TEST(UnconfirmedStarts, OneAmongManyOthersIsToldSoon) {
  UnconfirmedStarts awaited;
  EXPECT_FALSE(awaited.due(1000));
  awaited.Begin({1000, 1});
  EXPECT_FALSE(awaited.due(1001));
  EXPECT_TRUE(awaited.due(1100));
}

}  // namespace
}  // namespace harmonaize::daemon

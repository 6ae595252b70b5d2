// Jobs with a priority that meet others on links without sharing connections.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>

#include "src/topology/estimates/link_shares.h"
#include "tests/unit/topology/link_shares_fixture.h"

namespace harmonaize {
namespace {

/// A job with a priority, tenant 1, beside greedy ones.
class PriorityTest : public LinkSharesTest {
 protected:
  void AddPriority(int flows, int priority, double wanted = 1e12) {
    Add(1, 1, 1, flows, wanted);
    Grant(1, {.owner = 7, .priority = priority}, PriorityFactor(priority));
  }
  /// Sets what the job with a priority would send, as a fraction of the link.
  void Want(double wanted) { wanted_[flows_[0].rail] = wanted * kCapacity; }
  double RateOfOthers() const {
    double rate = 0;
    for (const JobFlow& flow : flows_) rate += flow.job.tenant != 1 ? flow.bytes_per_second : 0;
    return rate / kCapacity;
  }

  /// What the job with a priority and the others had, as fractions of the link.
  struct Had {
    double mean = 0;
    double others = 0;
    int longest_starved = 0;  ///< Intervals in a row in which the others had next to nothing.
  };
  /// Lets intervals pass, in each of which the job with a priority would send what `want` returns.
  /// The first `ignored` of them do not count.
  Had RunWanting(int intervals, int ignored, const std::function<double()>& want) {
    Had had;
    int starved = 0;
    const int counted = intervals - ignored;
    for (int i = 0; i < intervals; ++i) {
      Want(want());
      Run(1);
      if (i < ignored) continue;
      had.mean += RateOf(1, 1) / counted;
      had.others += RateOfOthers() / counted;
      starved = RateOfOthers() < 0.1 ? starved + 1 : 0;
      had.longest_starved = std::max(had.longest_starved, starved);
    }
    return had;
  }
};

TEST_F(PriorityTest, WhatAPriorityJobDoesNotUseIsTheOthers) {
  struct Case {
    int priority;
    double weight;
  };
  // The provider's priority for a tenant shows in the weight alone.
  for (const auto& [priority, weight] : {Case{1, 1e3}, Case{3, 1e9}, Case{0, 1e3}}) {
    SCOPED_TRACE(weight);
    shares_ = LinkShares();
    flows_.clear();
    Add(1, 1, 1, 1);
    Grant(1, {.owner = 7, .priority = priority}, weight);
    Add(2, 1, 1, 5);
    Want(1);
    Run(50);
    EXPECT_LT(RateOf(2, 1), 0.1);
    Want(0.3);
    Run(3);
    EXPECT_GT(MeanOf(2, 5), 0.28);
    EXPECT_GT(MeanOf(2, 20), 0.4);
    EXPECT_GT(MeanOf(2, 300), 0.57);
    EXPECT_GT(MeanOf(2, 300), 0.61);
    EXPECT_GT(MeanOf(1, 300), 0.295);
  }
}

TEST_F(PriorityTest, SeveralOthersShareWhatAPriorityJobDoesNotUse) {
  AddPriority(2, 1, 0.3 * kCapacity);
  Add(2, 1, 1, 5);
  Add(3, 1, 1, 1);
  Add(4, 1, 2, 2);
  Run(100);
  EXPECT_NEAR(MeanOf(2, 100), 0.15, 0.03);
  EXPECT_NEAR(MeanOf(3, 100), 0.15, 0.03);
  EXPECT_NEAR(MeanOf(4, 100), 0.3, 0.06);
  EXPECT_GT(MeanOf(1, 100), 0.295);
}

TEST_F(PriorityTest, PrioritiesComeOneAfterTheOther) {
  AddPriority(1, 3, 0.3 * kCapacity);
  Add(2, 1, 1, 1);
  Grant(2, {.owner = 8, .priority = 1}, PriorityFactor(1));
  Add(3, 1, 1, 5);
  Run(100);
  EXPECT_GT(MeanOf(1, 100), 0.295);
  EXPECT_GT(MeanOf(2, 100), 0.5);
  EXPECT_LT(MeanOf(3, 100), 0.1);
}

TEST_F(PriorityTest, APriorityJobHasTheLinkAgainSoon) {
  AddPriority(1, 1, 0.3 * kCapacity);
  Add(2, 1, 1, 5);
  double others = 0;
  constexpr int kTurns = 20;
  for (int turn = 0; turn < kTurns; ++turn) {
    Want(0.3);
    Run(5);
    others += MeanOf(2, 45 + turn) / kTurns;
    Want(1);
    Run(5);
    EXPECT_GT(RateOf(1, 1), 0.85) << turn;
    Run(5);
    EXPECT_GT(RateOf(1, 1), 0.93) << turn;
  }
  EXPECT_GT(others, 0.5);
}

// Nobody knows when the bursts begin or end.
TEST_F(PriorityTest, OthersHaveTheLinkInThePausesOfAPriorityJob) {
  AddPriority(1, 1);
  Add(2, 1, 1, 1);
  double in_pauses = 0;
  double in_bursts = 0;
  constexpr int kTurns = 40;
  for (int i = 0; i < kTurns; ++i) {
    Want(0);
    Run(2);
    in_pauses += MeanOf(2, 4) / kTurns;
    Want(1);
    Run(2);
    in_bursts += MeanOf(1, 4) / kTurns;
  }
  EXPECT_GT(in_pauses, 0.95);
  EXPECT_GT(in_bursts, 0.85);
}

// The job makes small operations one after the other, and computes in between. An operation takes
// longer the more the others send, so the job seems to want less than it does.
TEST_F(PriorityTest, APriorityJobThatComputesInBetweenLeavesRoomForOthers) {
  AddPriority(1, 1);
  Add(2, 1, 1, 3);
  const Had had =
      RunWanting(600, 100, [this] { return 1 / (1.35 + 1 / std::max(1 - RateOfOthers(), 0.01)); });
  EXPECT_GT(had.mean, 0.3);  // of 0.43 without others
  EXPECT_GT(had.others, 0.3);
  EXPECT_LT(had.longest_starved, 5);
}

TEST_F(PriorityTest, APriorityJobThatWaitsForItselfHasMoreThanHalf) {
  AddPriority(1, 1);
  Add(2, 1, 1, 3);
  const Had had = RunWanting(500, 50, [this] { return 0.8 * (1 - RateOfOthers()); });
  EXPECT_GT(had.mean, 0.58);  // of 0.8 without others
}

// Requests come at random, and most take less than an interval.
TEST_F(PriorityTest, APriorityJobOfShortBurstsStarvesNobody) {
  AddPriority(1, 3);
  Add(2, 1, 1, 2);
  Add(3, 1, 1, 2);
  uint32_t random = 12345;
  double waiting = 0;
  const Had had = RunWanting(1000, 0, [&] {
    random = random * 1664525 + 1013904223;
    waiting = std::max(waiting - RateOf(1, 1), 0.0);
    waiting += 0.05 * ((random >> 16) % 17);  // 0.4 on average
    return std::min(waiting, 0.85);
  });
  EXPECT_GT(had.mean, 0.39);
  EXPECT_GT(had.others, 0.3);
  EXPECT_LT(had.longest_starved, 10);
}

}  // namespace
}  // namespace harmonaize

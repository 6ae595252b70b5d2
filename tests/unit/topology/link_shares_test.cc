// Jobs that meet on links without sharing connections: who is held back, and to what.

#include "src/topology/estimates/link_shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <vector>

namespace harmonaize {
namespace {

constexpr double kInterval = 0.1;
constexpr double kCapacity = 100e6;

TEST(ShareOutTest, WhoWantsLittleLeavesTheRest) {
  const std::vector<Claim> claims = {{10, 1}, {100, 1}, {100, 3}};
  const std::vector<double> shares = ShareOut(claims, 90);
  EXPECT_DOUBLE_EQ(shares[0], 10);
  EXPECT_DOUBLE_EQ(shares[1], 20);
  EXPECT_DOUBLE_EQ(shares[2], 60);
}

TEST(ShareOutTest, NobodyGetsMoreThanItWants) {
  const std::vector<Claim> claims = {{10, 1}, {20, 5}};
  const std::vector<double> shares = ShareOut(claims, 90);
  EXPECT_DOUBLE_EQ(shares[0], 10);
  EXPECT_DOUBLE_EQ(shares[1], 20);
  EXPECT_TRUE(ShareOut({}, 90).empty());
}

TEST(ShareOutTest, NobodyGetsLessThanItsFloor) {
  const std::vector<Claim> claims = {{100, 1, 40}, {100, 1}, {100, 1}, {100, 1}};
  const std::vector<double> shares = ShareOut(claims, 100);
  EXPECT_NEAR(shares[0], 40, 1e-9);
  for (size_t i = 1; i < 4; ++i) EXPECT_NEAR(shares[i], 20, 1e-9);
}

TEST(ShareOutTest, AFloorBelowTheShareChangesNothing) {
  const std::vector<Claim> claims = {{100, 1, 40}, {100, 1}};
  EXPECT_NEAR(ShareOut(claims, 100)[0], 50, 1e-9);
}

TEST(ShareOutTest, WhatOfAFloorIsNotWantedIsTheOthers) {
  const std::vector<Claim> claims = {{10, 1, 40}, {100, 1}, {100, 2}};
  const std::vector<double> shares = ShareOut(claims, 100);
  EXPECT_NEAR(shares[0], 10, 1e-9);
  EXPECT_NEAR(shares[1], 30, 1e-9);
  EXPECT_NEAR(shares[2], 60, 1e-9);
}

TEST(ShareOutTest, FloorsThatCannotBeKeptAreLoweredInProportion) {
  const std::vector<Claim> claims = {{100, 1, 40}, {100, 1, 60}, {100, 1000}};
  const std::vector<double> shares = ShareOut(claims, 50);
  EXPECT_NEAR(shares[0], 20, 1e-9);
  EXPECT_NEAR(shares[1], 30, 1e-9);
  EXPECT_NEAR(shares[2], 0, 1e-9);
}

/// Jobs whose flows share one edge as TCP does, each flow alike, but within their limits.
class LinkSharesTest : public ::testing::Test {
 protected:
  /// A job of this tenant that sends over so many rails of its own, all of them over edge 0; and
  /// what all of them would send together.
  void Add(uint32_t tenant, uint64_t job, double weight, int flows, double wanted = 1e12) {
    for (int i = 0; i < flows; ++i) {
      const FabricRail rail{static_cast<int>(flows_.size()), 1000, 0};
      flows_.push_back({rail, {tenant, job}, weight, edges_, 0});
      wanted_[rail] = wanted / flows;
    }
  }
  /// Sets the terms of all jobs of a tenant.
  void Grant(uint32_t tenant, const LinkTerms& terms, double weight = 1) {
    for (JobFlow& flow : flows_) {
      if (flow.job.tenant != tenant) continue;
      flow.terms = terms;
      flow.weight = weight;
    }
  }
  void Remove(uint32_t tenant) {
    std::erase_if(flows_, [tenant](const JobFlow& flow) { return flow.job.tenant == tenant; });
  }

  void Run(int intervals) {
    for (int i = 0; i < intervals; ++i) {
      std::map<FabricRail, double> limits;
      for (const JobLimit& limit : shares_.Limits()) {
        if (limit.held_back) limits[limit.rail] = limit.bytes_per_second;
      }
      std::vector<Claim> claims;
      for (const JobFlow& flow : flows_) {
        const auto limit = limits.find(flow.rail);
        const double most = limit == limits.end() ? 1e12 : limit->second;
        claims.push_back({std::min(wanted_[flow.rail], most), 1});
      }
      const std::vector<double> rates = ShareOut(claims, carries_);
      for (size_t f = 0; f < flows_.size(); ++f) flows_[f].bytes_per_second = rates[f];
      now_ += kInterval;
      shares_.Take(
          flows_, [this](int) { return known_ ? carries_ : kCapacity; }, now_);
    }
  }
  double RateOf(uint32_t tenant, uint64_t job) const {
    double rate = 0;
    for (const JobFlow& flow : flows_) {
      if (flow.job == JobId{tenant, job}) rate += flow.bytes_per_second;
    }
    return rate / kCapacity;
  }
  double MeanOf(uint32_t tenant, int intervals) {
    double mean = 0;
    for (int i = 0; i < intervals; ++i) {
      Run(1);
      for (const JobFlow& flow : flows_) {
        if (flow.job.tenant == tenant) mean += flow.bytes_per_second / kCapacity / intervals;
      }
    }
    return mean;
  }
  /// Of all jobs together, while these intervals pass.
  double MeanOfAll(int intervals) {
    double mean = 0;
    for (int i = 0; i < intervals; ++i) {
      Run(1);
      for (const JobFlow& flow : flows_) mean += flow.bytes_per_second / kCapacity / intervals;
    }
    return mean;
  }
  bool HeldBack(uint32_t tenant) const {
    const std::vector<JobLimit> limits = shares_.Limits();
    return std::any_of(limits.begin(), limits.end(), [tenant](const JobLimit& limit) {
      return limit.job.tenant == tenant && limit.held_back;
    });
  }

  const std::map<int, double>& AvailableTo(const JobId& job) {
    const int edge = 0;
    return shares_.AvailableTo(job, 1, std::span(&edge, 1));
  }

  const std::shared_ptr<const std::vector<CrossedEdge>> edges_ =
      std::make_shared<std::vector<CrossedEdge>>(1, CrossedEdge{0, 1});
  LinkShares shares_;
  std::vector<JobFlow> flows_;
  std::map<FabricRail, double> wanted_;
  double carries_ = kCapacity;
  bool known_ = true;  // what the edge carries now
  double now_ = 0;
};

TEST_F(LinkSharesTest, AloneNobodyIsHeldBack) {
  Add(1, 1, 1, 4);
  Run(50);
  EXPECT_TRUE(shares_.Limits().empty());
  EXPECT_TRUE(AvailableTo({1, 1}).empty());
}

TEST_F(LinkSharesTest, ManyFlowsGetNoMoreThanOne) {
  Add(1, 1, 1, 1);
  Add(2, 1, 1, 7);
  Run(1);
  EXPECT_LT(RateOf(1, 1), 0.13);
  Run(30);
  EXPECT_NEAR(RateOf(1, 1), 0.5, 0.03);
  EXPECT_NEAR(RateOf(2, 1), 0.5, 0.03);
  EXPECT_FALSE(HeldBack(1));
}

TEST_F(LinkSharesTest, TenantsShareByWeight) {
  Add(1, 1, 1, 2);
  Add(2, 1, 2, 2);
  Add(3, 1, 4, 2);
  Run(60);
  EXPECT_NEAR(RateOf(1, 1), 1.0 / 7, 0.1 / 7);
  EXPECT_NEAR(RateOf(2, 1), 2.0 / 7, 0.2 / 7);
  EXPECT_NEAR(RateOf(3, 1), 4.0 / 7, 0.4 / 7);
}

TEST_F(LinkSharesTest, TheJobsOfATenantShareWhatItHas) {
  Add(1, 1, 1, 1);
  Add(1, 2, 1, 3);
  Add(2, 1, 1, 2);
  Run(60);
  EXPECT_NEAR(RateOf(1, 1), 0.25, 0.03);
  EXPECT_NEAR(RateOf(1, 2), 0.25, 0.03);
  EXPECT_NEAR(RateOf(2, 1), 0.5, 0.05);
}

TEST_F(LinkSharesTest, WhatOneDoesNotWantIsTheOthers) {
  Add(1, 1, 1, 1, 0.2 * kCapacity);
  Add(2, 1, 1, 7);
  // Now and then the other is held back to see whether it does want it.
  Run(300);
  EXPECT_GT(MeanOfAll(500), 0.9);
  EXPECT_NEAR(RateOf(1, 1), 0.2, 0.01);
  EXPECT_LT(AvailableTo({1, 1}).at(0), 0.6 * kCapacity);
  EXPECT_GT(AvailableTo({2, 1}).at(0), 0.7 * kCapacity);
  // One that is not there yet could have half of what the first leaves.
  EXPECT_NEAR(AvailableTo({3, 1}).at(0), 0.37 * kCapacity, 0.02 * kCapacity);
}

TEST_F(LinkSharesTest, WhoIsLeftAloneIsLetGo) {
  Add(1, 1, 1, 1);
  Add(2, 1, 1, 7);
  Run(30);
  EXPECT_TRUE(HeldBack(2));
  Remove(1);
  Run(20);
  EXPECT_FALSE(HeldBack(2));
  EXPECT_NEAR(RateOf(2, 1), 1, 0.01);
}

TEST_F(LinkSharesTest, FlowsThatTakeTurnsMaySendMoreEach) {
  Add(1, 1, 1, 1);
  Add(2, 1, 1, 4);
  // Of tenant 2's flows only one has anything to send at a time.
  for (int i = 0; i < 200; ++i) {
    const size_t turn = 1 + static_cast<size_t>(i) % 4;
    for (size_t f = 1; f < 5; ++f) wanted_[flows_[f].rail] = f == turn ? 1e12 : 0;
    // Four connections that begin at once are what makes it greedy.
    if (i < 10)
      for (size_t f = 1; f < 5; ++f) wanted_[flows_[f].rail] = 1e12;
    Run(1);
  }
  double mean = 0;
  for (int i = 0; i < 40; ++i) {
    const size_t turn = 1 + static_cast<size_t>(i) % 4;
    for (size_t f = 1; f < 5; ++f) wanted_[flows_[f].rail] = f == turn ? 1e12 : 0;
    Run(1);
    mean += RateOf(2, 1) / 40;
  }
  EXPECT_GT(mean, 0.4);
}

// One whose messages wait for each other takes less than the other leaves, whatever that is. What
// it is granted has to be ahead of what it takes, or the two settle where they are.
TEST_F(LinkSharesTest, WhoWaitsInTheOthersQueuesIsGivenRoom) {
  Add(1, 1, 1, 1);
  Add(2, 1, 1, 3);
  double other = 0.8;
  double mean = 0;
  for (int i = 0; i < 300; ++i) {
    wanted_[flows_[0].rail] = 0.75 * (1 - other) * kCapacity;
    Run(1);
    other = RateOf(2, 1);
    if (i >= 100) mean += RateOf(1, 1) / 200;
  }
  EXPECT_GT(mean, 0.37);
}

constexpr int kTwoSeconds = 20;  // intervals

TEST_F(LinkSharesTest, AFloorIsKeptBesideThreeGreedyJobs) {
  Add(1, 1, 1, 1);
  for (uint32_t tenant = 2; tenant <= 4; ++tenant) Add(tenant, 1, 1, 5);
  Run(50);
  EXPECT_LT(RateOf(1, 1), 0.3);
  Grant(1, {.owner = 7, .floor = 0.4 * kCapacity});
  Run(kTwoSeconds);
  EXPECT_GE(RateOf(1, 1), 0.38);
  EXPECT_GE(MeanOf(1, 500), 0.38);
  EXPECT_EQ(shares_.floors().at({1, 1}).state, LinkShares::FloorState::kKept);
  // The others lose no more than that, and share the rest alike.
  for (uint32_t tenant = 2; tenant <= 4; ++tenant) EXPECT_NEAR(RateOf(tenant, 1), 0.19, 0.02);
  Grant(1, {});
  Run(3 * kTwoSeconds);
  EXPECT_LT(RateOf(1, 1), 0.3);
}

TEST_F(LinkSharesTest, AFloorIsKeptForOneWhoseMessagesWait) {
  Add(1, 1, 1, 1);
  for (uint32_t tenant = 2; tenant <= 4; ++tenant) Add(tenant, 1, 1, 3);
  Grant(1, {.owner = 7, .floor = 0.4 * kCapacity});
  double left = 0.2;
  double mean = 0;
  for (int i = 0; i < 500; ++i) {
    wanted_[flows_[0].rail] = 0.9 * left * kCapacity;
    Run(1);
    left = 1 - RateOf(2, 1) - RateOf(3, 1) - RateOf(4, 1);
    if (i >= 100) mean += RateOf(1, 1) / 400;
  }
  EXPECT_GT(mean, 0.37);
}

TEST_F(LinkSharesTest, WhatOfAFloorIsNotUsedIsTheOthers) {
  Add(1, 1, 1, 1, 0.1 * kCapacity);
  Add(2, 1, 1, 5);
  Grant(1, {.owner = 7, .floor = 0.6 * kCapacity});
  Run(100);
  EXPECT_NEAR(MeanOf(1, 300), 0.1, 0.01);
  EXPECT_GT(MeanOf(2, 300), 0.6);
  // As soon as it wants it, it gets it.
  wanted_[flows_[0].rail] = 1e12;
  Run(kTwoSeconds);
  EXPECT_GE(RateOf(1, 1), 0.57);
}

TEST_F(LinkSharesTest, JobsOfAnOwnerHaveFloorAndCapTogether) {
  Add(1, 1, 1, 1);
  Add(1, 2, 1, 1);
  Add(2, 1, 1, 10);
  Grant(1, {.owner = 7, .floor = 0.7 * kCapacity});
  Run(100);
  EXPECT_NEAR(RateOf(1, 1) + RateOf(1, 2), 0.7, 0.07);
  EXPECT_NEAR(RateOf(2, 1), 0.3, 0.07);
  Grant(1, {.owner = 7, .cap = 0.2 * kCapacity});
  Run(kTwoSeconds);
  EXPECT_LE(RateOf(1, 1) + RateOf(1, 2), 0.21);
}

TEST_F(LinkSharesTest, ACapHoldsAlsoForOneWhoIsAlone) {
  Add(1, 1, 1, 4);
  Run(20);
  EXPECT_FALSE(HeldBack(1));
  Grant(1, {.owner = 7, .cap = 0.3 * kCapacity});
  Run(kTwoSeconds);
  EXPECT_LE(RateOf(1, 1), 0.31);
  EXPECT_LE(MeanOf(1, 200), 0.305);
  EXPECT_GE(MeanOf(1, 200), 0.28);
  Grant(1, {});
  Run(kTwoSeconds);
  EXPECT_NEAR(RateOf(1, 1), 1, 0.01);
}

TEST_F(LinkSharesTest, ACapOfATenantHoldsForAllItsOwners) {
  for (uint64_t job = 1; job <= 3; ++job) Add(1, job, 1, 1);
  Add(2, 1, 1, 1);
  for (size_t job = 0; job < 3; ++job) {
    flows_[job].terms = {.owner = job + 1, .cap = 0.25 * kCapacity, .tenant_cap = 0.3 * kCapacity};
  }
  const auto of_tenant = [this] { return RateOf(1, 1) + RateOf(1, 2) + RateOf(1, 3); };
  Run(2 * kTwoSeconds);
  EXPECT_LE(of_tenant(), 0.31);
  EXPECT_GE(of_tenant(), 0.25);
  EXPECT_GT(RateOf(2, 1), 0.65);
  for (size_t job = 0; job < 3; ++job) flows_[job].terms.tenant_cap = 0;
  Run(2 * kTwoSeconds);
  EXPECT_GT(of_tenant(), 0.45);
}

TEST_F(LinkSharesTest, WhatACapLeavesIsTheOthers) {
  Add(1, 1, 4, 4);
  Add(2, 1, 1, 1);
  Grant(1, {.owner = 7, .cap = 0.3 * kCapacity}, 4);
  Run(2 * kTwoSeconds);
  EXPECT_LE(RateOf(1, 1), 0.31);
  EXPECT_GT(RateOf(2, 1), 0.65);
}

TEST_F(LinkSharesTest, APriorityCountsAThousandTimesAlsoInATenant) {
  Add(1, 1, 1, 1);
  Add(2, 1, 1, 5);
  Run(50);
  Grant(1, {.owner = 7, .priority = 1}, 1000);
  Run(kTwoSeconds);
  EXPECT_GT(RateOf(1, 1), 0.9);
  // Two jobs of one tenant, of which one is given a priority.
  Remove(2);
  Add(1, 2, 1, 5);
  Run(kTwoSeconds);
  EXPECT_GT(RateOf(1, 1), 0.9);
  Grant(1, {.owner = 7});
  Run(100);
  EXPECT_NEAR(RateOf(1, 1), 0.5, 0.05);
}

/// A job with a priority, tenant 1, beside greedy ones.
class PriorityTest : public LinkSharesTest {
 protected:
  void AddPriority(int flows, int priority, double wanted = 1e12) {
    Add(1, 1, 1, flows, wanted);
    Grant(1, {.owner = 7, .priority = priority}, std::pow(kPriorityStep, priority));
  }
  /// Sets what the job with a priority would send, as a fraction of the link.
  void Want(double wanted) { wanted_[flows_[0].rail] = wanted * kCapacity; }
  double RateOfOthers() const {
    double rate = 0;
    for (const JobFlow& flow : flows_) rate += flow.job.tenant != 1 ? flow.bytes_per_second : 0;
    return rate / kCapacity;
  }
  /// Counts the intervals in a row in which the others have next to nothing.
  void CountStarved() {
    starved_ = RateOfOthers() < 0.1 ? starved_ + 1 : 0;
    longest_starved_ = std::max(longest_starved_, starved_);
  }

  int starved_ = 0;
  int longest_starved_ = 0;
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
  Grant(2, {.owner = 8, .priority = 1}, kPriorityStep);
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
  double mean = 0;
  double others = 0;
  for (int i = 0; i < 600; ++i) {
    Want(1 / (1.35 + 1 / std::max(1 - RateOfOthers(), 0.01)));
    Run(1);
    if (i < 100) continue;
    mean += RateOf(1, 1) / 500;
    others += RateOfOthers() / 500;
    CountStarved();
  }
  EXPECT_GT(mean, 0.3);  // of 0.43 without others
  EXPECT_GT(others, 0.3);
  EXPECT_LT(longest_starved_, 5);
}

TEST_F(PriorityTest, APriorityJobThatWaitsForItselfHasMoreThanHalf) {
  AddPriority(1, 1);
  Add(2, 1, 1, 3);
  double mean = 0;
  for (int i = 0; i < 500; ++i) {
    Want(0.8 * (1 - RateOfOthers()));
    Run(1);
    if (i >= 50) mean += RateOf(1, 1) / 450;
  }
  EXPECT_GT(mean, 0.58);  // of 0.8 without others
}

// Requests come at random, and most take less than an interval.
TEST_F(PriorityTest, APriorityJobOfShortBurstsStarvesNobody) {
  AddPriority(1, 3);
  Add(2, 1, 1, 2);
  Add(3, 1, 1, 2);
  uint32_t random = 12345;
  double waiting = 0;
  double others = 0;
  double mean = 0;
  for (int i = 0; i < 1000; ++i) {
    random = random * 1664525 + 1013904223;
    waiting += 0.05 * ((random >> 16) % 17);  // 0.4 on average
    Want(std::min(waiting, 0.85));
    Run(1);
    waiting = std::max(waiting - RateOf(1, 1), 0.0);
    mean += RateOf(1, 1) / 1000;
    others += RateOfOthers() / 1000;
    CountStarved();
  }
  EXPECT_GT(mean, 0.39);
  EXPECT_GT(others, 0.3);
  EXPECT_LT(longest_starved_, 10);
}

// The link loses so much that the floors do not fit any more.
TEST_F(LinkSharesTest, FloorsThatAreMissedAreTold) {
  Add(1, 1, 1, 1);
  Add(2, 1, 1, 3);
  Add(3, 1, 1, 3);
  Grant(1, {.owner = 7, .floor = 0.4 * kCapacity});
  Grant(2, {.owner = 8, .floor = 0.4 * kCapacity});
  Run(100);
  EXPECT_EQ(shares_.floors().at({1, 1}).state, LinkShares::FloorState::kKept);
  EXPECT_EQ(shares_.floors().at({2, 1}).state, LinkShares::FloorState::kKept);
  EXPECT_FALSE(shares_.floors().contains({3, 1}));
  carries_ = 0.4 * kCapacity;
  Run(kTwoSeconds);
  int missed = 0;
  for (int i = 0; i < 100; ++i) {
    Run(1);
    const auto& report = shares_.floors().at({1, 1});
    missed += report.state == LinkShares::FloorState::kMissed ? 1 : 0;
    EXPECT_LT(report.had, 0.25 * kCapacity);
  }
  EXPECT_GT(missed, 90);
  EXPECT_NEAR(RateOf(1, 1), 0.2, 0.03);
  EXPECT_NEAR(RateOf(2, 1), 0.2, 0.03);
  carries_ = kCapacity;
  Run(kTwoSeconds);
  EXPECT_EQ(shares_.floors().at({1, 1}).state, LinkShares::FloorState::kKept);
}

// Nobody has found out that the link carries less. But the job has data waiting.
TEST_F(LinkSharesTest, FloorsThatAreMissedForReasonsUnknownAreTold) {
  Add(1, 1, 1, 1);
  Add(2, 1, 1, 3);
  flows_[0].busy = 1;
  Grant(1, {.owner = 7, .floor = 0.6 * kCapacity});
  Run(50);
  EXPECT_EQ(shares_.floors().at({1, 1}).state, LinkShares::FloorState::kKept);
  known_ = false;
  carries_ = 0.5 * kCapacity;
  Run(10);
  int missed = 0;
  for (int i = 0; i < 100; ++i) {
    Run(1);
    const LinkShares::FloorState state = shares_.floors().at({1, 1}).state;
    EXPECT_NE(state, LinkShares::FloorState::kKept);
    missed += state == LinkShares::FloorState::kMissed ? 1 : 0;
  }
  EXPECT_GT(missed, 30);
}

// Whether a job that sends little beside others wants its floor is found out by giving it room.
TEST_F(LinkSharesTest, WhoDoesNotWantItsFloorDoesNotMissIt) {
  Add(1, 1, 1, 1, 0.1 * kCapacity);
  Add(2, 1, 1, 5);
  Grant(1, {.owner = 7, .floor = 0.6 * kCapacity});
  Run(50);
  int missed = 0;
  for (int i = 0; i < 300; ++i) {
    Run(1);
    missed = shares_.floors().at({1, 1}).state == LinkShares::FloorState::kMissed ? missed + 1 : 0;
    EXPECT_LT(missed, 10);  // not for a second
  }
}

}  // namespace
}  // namespace harmonaize

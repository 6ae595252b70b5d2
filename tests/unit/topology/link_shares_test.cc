// Jobs that meet on links without sharing connections: who is held back, and to what.

#include "src/topology/estimates/link_shares.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/topology/link_shares_fixture.h"

namespace harmonaize {
namespace {

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
  EXPECT_EQ(shares_.floors().at({1, 0, 7}).state, LinkShares::FloorState::kKept);
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
  flows_.front().terms.priority = 0;
  flows_.front().weight = 1;
  Run(100);
  EXPECT_NEAR(RateOf(1, 1), 0.5, 0.05);
}

// The link loses so much that the floors do not fit any more.
TEST_F(LinkSharesTest, FloorsThatAreMissedAreTold) {
  Add(1, 1, 1, 1);
  Add(2, 1, 1, 3);
  Add(3, 1, 1, 3);
  Grant(1, {.owner = 7, .floor = 0.4 * kCapacity});
  Grant(2, {.owner = 8, .floor = 0.4 * kCapacity});
  Run(100);
  EXPECT_EQ(shares_.floors().at({1, 0, 7}).state, LinkShares::FloorState::kKept);
  EXPECT_EQ(shares_.floors().at({2, 0, 8}).state, LinkShares::FloorState::kKept);
  EXPECT_FALSE(shares_.floors().contains({3, 0, 1}));
  carries_ = 0.4 * kCapacity;
  Run(kTwoSeconds);
  int missed = 0;
  for (int i = 0; i < 100; ++i) {
    Run(1);
    const auto& report = shares_.floors().at({1, 0, 7});
    missed += report.state == LinkShares::FloorState::kMissed ? 1 : 0;
    EXPECT_LT(report.had, 0.25 * kCapacity);
  }
  EXPECT_GT(missed, 90);
  EXPECT_NEAR(RateOf(1, 1), 0.2, 0.03);
  EXPECT_NEAR(RateOf(2, 1), 0.2, 0.03);
  carries_ = kCapacity;
  Run(kTwoSeconds);
  EXPECT_EQ(shares_.floors().at({1, 0, 7}).state, LinkShares::FloorState::kKept);
}

// Nobody has found out that the link carries less. But the job has data waiting.
TEST_F(LinkSharesTest, FloorsThatAreMissedForReasonsUnknownAreTold) {
  Add(1, 1, 1, 1);
  Add(2, 1, 1, 3);
  flows_[0].busy = 1;
  Grant(1, {.owner = 7, .floor = 0.6 * kCapacity});
  Run(50);
  EXPECT_EQ(shares_.floors().at({1, 0, 7}).state, LinkShares::FloorState::kKept);
  known_ = false;
  carries_ = 0.5 * kCapacity;
  Run(10);
  int missed = 0;
  for (int i = 0; i < 100; ++i) {
    Run(1);
    const LinkShares::FloorState state = shares_.floors().at({1, 0, 7}).state;
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
    missed =
        shares_.floors().at({1, 0, 7}).state == LinkShares::FloorState::kMissed ? missed + 1 : 0;
    EXPECT_LT(missed, 10);  // not for a second
  }
}

}  // namespace
}  // namespace harmonaize

// Tenants that try to get more of a link than their share, or to keep others from theirs.

#include <gtest/gtest.h>

#include <cstdint>

#include "src/topology/estimates/link_shares.h"
#include "tests/unit/topology/link_shares_fixture.h"

namespace harmonaize {
namespace {

class StrangersTest : public LinkSharesTest {
 protected:
  /// Has all that a tenant sends belong to this owner from now on.
  void BecomeOwner(uint32_t tenant, uint64_t owner) {
    for (JobFlow& flow : flows_) {
      if (flow.job.tenant != tenant) continue;
      flow.job.job = owner;
      flow.terms.owner = owner;
    }
  }
  /// What two tenants had, as fractions of the link.
  struct Had {
    double first = 0;
    double second = 0;
  };
  /// Lets intervals pass, in which tenant 2 sends by another one of so many owners every
  /// `intervals_each`. The first 100 intervals do not count.
  Had RunWithOwners(int intervals, int intervals_each, uint64_t owners) {
    Had had;
    for (int i = 0; i < intervals; ++i) {
      const auto turn = static_cast<uint64_t>(i / intervals_each);
      BecomeOwner(2, 1 + turn % owners);
      Run(1);
      if (i < 100) continue;
      for (const JobFlow& flow : flows_) {
        const double part = flow.bytes_per_second / kCapacity / (intervals - 100);
        (flow.job.tenant == 1 ? had.first : had.second) += part;
      }
    }
    return had;
  }
};

// Each of the greedy ones has hardly more than its share. Together they have nearly all that is the
// first one's.
TEST_F(StrangersTest, ManyGreedyTenantsDoNotStarveOne) {
  for (const uint32_t tenants : {2U, 10U, 20U, 40U}) {
    flows_.clear();
    Add(1, 1, 1, 1);
    for (uint32_t tenant = 2; tenant <= tenants; ++tenant) Add(tenant, 1, 1, 8);
    Run(100);
    EXPECT_GT(MeanOf(1, 300), 0.8 / tenants) << tenants << " tenants";
  }
}

TEST_F(StrangersTest, OneWithNextToNothingGetsItsShare) {
  Add(1, 1, 1, 1);
  Add(2, 1, 1, 400);
  Run(1);
  EXPECT_LT(RateOf(1, 1), 0.004);
  Run(100);
  EXPECT_GT(MeanOf(1, 300), 0.4);
}

TEST_F(StrangersTest, ManyOwnersGetNoMoreThanOne) {
  Add(1, 1, 1, 1);
  for (uint64_t owner = 1; owner <= 50; ++owner) Add(2, owner, 1, 2);
  Run(100);
  EXPECT_NEAR(MeanOf(1, 300), 0.5, 0.05);
}

TEST_F(StrangersTest, OwnersThatSendByTurnsGetNoMoreThanOne) {
  for (const uint64_t owners : {2U, 8U, 25U, 1000U}) {
    flows_.clear();
    Add(1, 1, 1, 1);
    Add(2, 1, 1, 7);
    const Had had = RunWithOwners(1000, 2, owners);
    EXPECT_GT(had.first, 0.42) << owners << " owners";
    EXPECT_GT(had.second, 0.35) << owners << " owners";
  }
}

// Each owner seems to lack its share, and is to show whether it wants it.
TEST_F(StrangersTest, NewOwnersThatWantLittleDoNotHoldOthersBack) {
  Add(1, 1, 1, 4);
  Add(2, 1, 1, 1, 0.012 * kCapacity);
  const Had had = RunWithOwners(2000, 16, 1000);
  EXPECT_GT(had.first, 0.8);
}

// Those with a priority come first, but what they do not use is the others'.
TEST_F(StrangersTest, ManyJobsWithAPriorityLeaveWhatTheyDoNotUse) {
  for (uint64_t owner = 1; owner <= 100; ++owner) {
    Add(1, owner, PriorityFactor(1), 1, 0.00015 * kCapacity);
    flows_.back().terms.priority = 1;
  }
  Add(2, 1, 1, 4);
  Run(100);
  EXPECT_GT(MeanOf(2, 300), 0.85);
}

// One that has nearly all of a link has hardly more than its share, and takes all of another's. It
// is held back for that one, and both are not held back for ever.
TEST_F(StrangersTest, OneOfLargeWeightLeavesTheOthersTheirShare) {
  Add(1, 1, 8, 9);
  Add(2, 1, 1, 1);
  Run(100);
  EXPECT_GT(MeanOf(2, 300), 0.09);
  flows_.clear();
  Add(1, 1, 8, 1);
  Add(2, 1, 1, 1);
  Run(300);
  int both = 0;
  for (int i = 0; i < 100; ++i) {
    Run(1);
    both += HeldBack(1) && HeldBack(2) ? 1 : 0;
  }
  EXPECT_EQ(both, 0);
  EXPECT_GT(MeanOfAll(100), 0.97);
  EXPECT_NEAR(RateOf(2, 1), 0.11, 0.02);
}

// The limit of a rail holds for the whole tenant. An owner that comes then is limited before it is
// known.
TEST_F(StrangersTest, TheLimitIsTheTenants) {
  Add(1, 1, 1, 1);
  Add(2, 1, 1, 7);
  Run(30);
  ASSERT_TRUE(HeldBack(2));
  for (const ShareLimit& limit : shares_.Limits()) EXPECT_EQ(limit.owner, 0U);
}

}  // namespace
}  // namespace harmonaize

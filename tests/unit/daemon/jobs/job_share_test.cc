// The share of links that messages have, by the terms of their job.

#include "daemon/jobs/job_share.h"

#include <gtest/gtest.h>

#include <memory>

#include "daemon/tenant/tenant.h"

namespace harmonaize::daemon {
namespace {

class JobShareTest : public ::testing::Test {
 protected:
  void Say(double priority, double floor, double cap) {
    Requirements granted;
    granted.values["collectives.priority"] = static_cast<int64_t>(priority);
    if (floor > 0) granted.values["collectives.bandwidth_floor"] = floor;
    if (cap > 0) granted.values["collectives.bandwidth_cap"] = cap;
    job_.terms = std::make_shared<const JobTerms>(std::move(granted));
  }

  Tenant tenant_{{1000, 1000, 1001, "uid 1000"}, nullptr};
  Job job_{.id = JobIdentity{.bytes = {1, 2, 3}}, .tenant = &tenant_};
  CommunicatorShare share_{"tp0", 77};
};

TEST_F(JobShareTest, AJobThatSaysNothingHasItsTenantsShare) {
  tenant_.weight = 2;
  const transport::TenantShare& share = share_.Of(job_);
  EXPECT_EQ(share.tenant, tenant_.identity.across_hosts);
  EXPECT_EQ(share.weight, 2);
  EXPECT_EQ(share.job, 77u);
  EXPECT_NE(share.owner, 0u);
  EXPECT_EQ(share.priority, 0);
  EXPECT_EQ(share.floor, 0);
  EXPECT_EQ(share.cap, 0);
}

TEST_F(JobShareTest, AChangeOfTermsTakesEffectAtOnce) {
  const uint64_t owner = share_.Of(job_).owner;
  Say(2, 4e6, 9e6);
  EXPECT_EQ(share_.Of(job_).weight, 1e6F);
  EXPECT_EQ(share_.Of(job_).priority, 2);
  EXPECT_EQ(share_.Of(job_).floor, 4e6F);
  EXPECT_EQ(share_.Of(job_).cap, 9e6F);
  EXPECT_EQ(share_.Of(job_).owner, owner);
  EXPECT_EQ(share_.floor(), 4e6);
  Say(0, 0, 0);
  EXPECT_EQ(share_.Of(job_).weight, 1);
  EXPECT_EQ(share_.Of(job_).cap, 0);
}

TEST_F(JobShareTest, AFloorThatIsRefusedCountsForNothing) {
  Say(0, 4e6, 0);
  share_.Of(job_);
  share_.SetRefusedFloor(4e6);
  EXPECT_EQ(share_.Of(job_).floor, 0);
  EXPECT_EQ(share_.floor(), 4e6);
  Say(0, 3e6, 0);  // another one, of which nothing is known yet
  EXPECT_EQ(share_.Of(job_).floor, 3e6F);
  Say(0, 4e6, 0);
  share_.SetRefusedFloor(0);
  EXPECT_EQ(share_.Of(job_).floor, 4e6F);
}

TEST_F(JobShareTest, OverridesMakeAnOwnerOfTheirOwn) {
  Requirements granted;
  granted.values["collectives.bandwidth_cap"] = 9e6;
  granted.overrides.push_back({{"communicator", std::string("tp*")}, {"bandwidth_cap", 1e6}});
  granted.overrides.push_back({{"communicator", std::string("dp*")}, {"priority", int64_t{1}}});
  job_.terms = std::make_shared<const JobTerms>(std::move(granted));
  EXPECT_EQ(OwnerOf(job_, ""), OwnerOf(job_, "dp0"));
  EXPECT_EQ(OwnerOf(job_, "tp0"), OwnerOf(job_, "tp1"));
  EXPECT_NE(OwnerOf(job_, "tp0"), OwnerOf(job_, "dp0"));
  EXPECT_EQ(ShareOf(job_, "tp0", 1).cap, 1e6F);
  EXPECT_EQ(ShareOf(job_, "dp0", 1).priority, 1);
}

// Overrides make other owners, but not another tenant.
TEST_F(JobShareTest, TheBoundOfTheTenantHoldsForAllCommunicators) {
  tenant_.link_bounds = {.most_floor = 3e6, .most_cap = 5e6};
  Requirements granted;
  granted.overrides.push_back({{"communicator", std::string("tp0")}, {"bandwidth_cap", 4e6}});
  job_.terms = std::make_shared<const JobTerms>(std::move(granted));
  EXPECT_EQ(ShareOf(job_, "tp0", 1).tenant_cap, 5e6F);
  EXPECT_EQ(ShareOf(job_, "dp0", 2).tenant_cap, 5e6F);
  EXPECT_EQ(share_.Of(job_).tenant_cap, 5e6F);
  EXPECT_EQ(ShareOf(job_, "tp0", 1).tenant_floor, 3e6F);
  EXPECT_EQ(share_.Of(job_).tenant_floor, 3e6F);
  tenant_.link_bounds = {.most_floor = 2e6};
  EXPECT_EQ(share_.Of(job_).tenant_floor, 2e6F) << "another policy takes effect at once";
  EXPECT_EQ(share_.Of(job_).tenant_cap, 0) << "another policy takes effect at once";
}

TEST_F(JobShareTest, WeightsAreBounded) {
  tenant_.weight = 1e12;
  Say(3, 0, 0);
  EXPECT_EQ(share_.Of(job_).weight, static_cast<float>(transport::kMostWeight));
}

}  // namespace
}  // namespace harmonaize::daemon

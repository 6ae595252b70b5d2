#include "daemon/agents/known_agents.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/communicator/communicator.h"
#include "daemon/communicator/communicator_registry.h"
#include "daemon/config/config.h"
#include "daemon/host/host_limits.h"
#include "daemon/job_events/job_attachments.h"
#include "daemon/job_events/job_communicators.h"
#include "daemon/job_events/job_relay.h"
#include "daemon/tenant/tenant.h"

namespace harmonaize::daemon {
namespace {

/// What a host knows of agents that other hosts tell of. It has ties with them, and no ranks.
class KnownAgentsTest : public ::testing::Test {
 protected:
  static constexpr transport::PeerId kPeer = 5;

  Job* JobOf(Tenant* tenant, uint8_t number) {
    Job* const job = jobs_.Of(JobIdentity{.bytes = {number}}, tenant, JobClaim{});
    job->name = "job " + std::to_string(number);
    return job;
  }
  /// Another host tells of so many agents of a job.
  void Hear(Job* job, size_t count) {
    const uint64_t tie = ++last_;
    attachments_.Add(job, tie, kPeer);
    for (size_t i = 0; i < count; ++i) {
      agents_.OnAgent(kPeer, {.about = tie, .unique = ++last_, .agent = {.number = ++last_}});
    }
    attachments_.Remove(tie, kPeer);
  }
  size_t CountOf(const Tenant& tenant) { return agents_.All(tenant.identity.number).size(); }

  std::shared_ptr<Accounts> accounts_ =
      std::make_shared<Accounts>(LimitsOfHost(Config(), CapacityOfHost()));
  Tenant alice_{{1000, 1000, 1000, "uid 1000"}, accounts_->Of(1000, "uid 1000")};
  Tenant bob_{{1001, 1001, 1001, "uid 1001"}, accounts_->Of(1001, "uid 1001")};
  JobTable jobs_;
  CommunicatorRegistry communicators_;
  JobCommunicators by_job_;
  JobAttachments attachments_;
  const JobRelay relay_{
      {.communicators = &communicators_, .by_job = &by_job_, .attachments = &attachments_}};
  KnownAgents agents_{
      {.attachments = &attachments_, .by_job = &by_job_, .relay = &relay_, .jobs = &jobs_},
      [](uint64_t) { return false; }};
  uint64_t last_ = 0;
};

TEST_F(KnownAgentsTest, AJobHasAtMostOneForEachHost) {
  Job* const job = JobOf(&alice_, 1);
  Hear(job, KnownAgents::kMostOfJob - 1);
  EXPECT_TRUE(agents_.CheckRoom(*job).ok());
  Hear(job, 2);
  EXPECT_EQ(CountOf(alice_), KnownAgents::kMostOfJob);
  EXPECT_EQ(agents_.CheckRoom(*job).message(),
            "job 'job 1' has 1024 agents on other hosts, as many as may be: end launchers of it "
            "that are not needed (harmonaize run --elastic)");
  EXPECT_TRUE(agents_.CheckRoom(*JobOf(&alice_, 2)).ok());
}

TEST_F(KnownAgentsTest, ATenantsJobsTogetherHaveSoManyAndOtherTenantsHaveTheirOwn) {
  for (uint8_t number = 1; number <= 8; ++number) Hear(JobOf(&alice_, number), 600);
  EXPECT_EQ(CountOf(alice_), KnownAgents::kMostOfTenant);
  EXPECT_EQ(agents_.CheckRoom(*JobOf(&alice_, 9)).message(),
            "this user's jobs have 4096 agents on other hosts, as many as may be: end launchers "
            "that are not needed (harmonaize run --elastic)");
  Hear(JobOf(&bob_, 1), 3);
  EXPECT_EQ(CountOf(bob_), 3U);
  EXPECT_EQ(agents_.All(std::nullopt).size(), KnownAgents::kMostOfTenant + 3);
  // There is room again once a job is gone.
  agents_.OnJobGone(*JobOf(&alice_, 1));
  EXPECT_TRUE(agents_.CheckRoom(*JobOf(&alice_, 9)).ok());
  Hear(JobOf(&alice_, 9), 600);
  EXPECT_EQ(CountOf(alice_), KnownAgents::kMostOfTenant);
}

TEST_F(KnownAgentsTest, AreChargedToTheirTenant) {
  Job* const job = JobOf(&alice_, 1);
  Hear(job, 10);
  EXPECT_GT(alice_.account->held(Resource::kMemory), 0);
  EXPECT_EQ(bob_.account->held(Resource::kMemory), 0);
  agents_.OnJobGone(*job);
  EXPECT_EQ(alice_.account->held(Resource::kMemory), 0);
  EXPECT_TRUE(agents_.empty());
}

TEST_F(KnownAgentsTest, ATenantWithoutMemoryLeftHasNoMore) {
  std::vector<Holding> all;
  for (int64_t bytes = int64_t{1} << 50; bytes > 0; bytes /= 2) {
    Result<Holding> taken = alice_.account->Take(Resource::kMemory, bytes);
    if (taken.ok()) all.push_back(std::move(*taken));
  }
  Hear(JobOf(&alice_, 1), 10);
  EXPECT_EQ(CountOf(alice_), 0U);
  EXPECT_TRUE(agents_.empty());
}

}  // namespace
}  // namespace harmonaize::daemon

#include "daemon/jobs/job_table.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "daemon/tenant/tenant.h"

namespace harmonaize::daemon {
namespace {

class JobTableTest : public ::testing::Test {
 protected:
  Job* Make(uint8_t number) {
    return table_.Of(JobIdentity{.bytes = {number}}, &tenant_, JobClaim{});
  }

  Job* MakeNamed(uint8_t number, Tenant* tenant, const char* name, double began_seconds) {
    Job* const job = table_.Of(JobIdentity{.bytes = {number}}, tenant, JobClaim{});
    job->name = name;
    job->began_seconds = began_seconds;
    return job;
  }

  Tenant tenant_{{1000, 1000, 1000, "uid 1000"}, nullptr};
  Tenant other_{{1001, 1001, 1001, "uid 1001"}, nullptr};
  JobTable table_;
};

TEST_F(JobTableTest, JobsAreFoundByIdOrElseByName) {
  Job* const early = MakeNamed(1, &tenant_, "llama", 10);
  Job* const late = MakeNamed(2, &tenant_, "llama", 20);
  MakeNamed(3, &tenant_, "llama", 5);
  Job* const others = MakeNamed(4, &other_, "llama", 30);
  Job* const nameless = MakeNamed(5, &tenant_, "", 1);
  // It has the name that another one has as its id.
  Job* const liar = MakeNamed(6, &other_, early->id.text().c_str(), 40);
  using Jobs = std::vector<Job*>;
  const uint32_t mine = tenant_.identity.number;
  EXPECT_EQ(table_.FindAll(mine, "llama"), Jobs{late}) << "the one that began last";
  EXPECT_EQ(table_.FindAll(mine, early->id.text()), Jobs{early});
  EXPECT_EQ(table_.FindAll(std::nullopt, early->id.text()), Jobs{early}) << "ids go before names";
  EXPECT_EQ(table_.FindAll(other_.identity.number, early->id.text()), Jobs{liar});
  EXPECT_EQ(table_.FindAll(mine, nameless->id.text()), Jobs{nameless});
  EXPECT_TRUE(table_.FindAll(mine, "").empty());
  EXPECT_TRUE(table_.FindAll(mine, others->id.text()).empty());
  const Jobs of_all = table_.FindAll(std::nullopt, "llama");
  EXPECT_EQ(std::set<Job*>(of_all.begin(), of_all.end()), (std::set<Job*>{late, others}));
}

TEST_F(JobTableTest, AJobHasNotEndedWhileACommunicatorOfItForms) {
  Job* const job = Make(1);
  {
    JobHold first(&table_, job, &Job::forming);
    JobHold moved = std::move(first);
    EXPECT_EQ(moved.job(), job);
    EXPECT_EQ(job->forming, 1);
    JobTable::Add(job);
    table_.Remove(job, {});
    EXPECT_EQ(job->ended_seconds, 0);
  }
  EXPECT_EQ(job->forming, 0);
  EXPECT_NE(job->ended_seconds, 0);
  const JobHold again(&table_, job, &Job::forming);
  EXPECT_EQ(job->ended_seconds, 0) << "it begins anew";
}

TEST_F(JobTableTest, AJobThatFormsGoesOnAsItsCommunicator) {
  Job* const job = Make(1);
  {
    const JobHold forms(&table_, job, &Job::forming);
    JobTable::Add(job);
  }
  EXPECT_EQ(job->ended_seconds, 0);
  table_.Remove(job, {.count = 1});
  EXPECT_NE(job->ended_seconds, 0);
}

TEST_F(JobTableTest, AHoldThatTakesAnotherJobLetsGoOfTheFirst) {
  Job* const first = Make(1);
  Job* const second = Make(2);
  JobHold hold(&table_, first, &Job::forming);
  hold = JobHold(&table_, second, &Job::forming);
  EXPECT_EQ(hold.job(), second);
  EXPECT_NE(first->ended_seconds, 0);
  EXPECT_EQ(second->ended_seconds, 0);
}

}  // namespace
}  // namespace harmonaize::daemon

#include "daemon/jobs/job_table.h"

#include <gtest/gtest.h>

#include <utility>

#include "daemon/tenant/tenant.h"

namespace harmonaize::daemon {
namespace {

class JobTableTest : public ::testing::Test {
 protected:
  Job* Make(uint8_t number) {
    return table_.Of(JobIdentity{.bytes = {number}}, &tenant_, JobClaim{});
  }

  Tenant tenant_{{1000, 1000, 1000, "uid 1000"}, nullptr};
  JobTable table_;
};

TEST_F(JobTableTest, AJobHasNotEndedWhileACommunicatorOfItForms) {
  Job* const job = Make(1);
  {
    FormingHold first(&table_, job);
    FormingHold moved = std::move(first);
    EXPECT_EQ(moved.job(), job);
    EXPECT_EQ(job->forming, 1);
    JobTable::Add(job);
    table_.Remove(job, {});
    EXPECT_EQ(job->ended_seconds, 0);
  }
  EXPECT_EQ(job->forming, 0);
  EXPECT_NE(job->ended_seconds, 0);
  const FormingHold again(&table_, job);
  EXPECT_EQ(job->ended_seconds, 0) << "it begins anew";
}

TEST_F(JobTableTest, AJobThatFormsGoesOnAsItsCommunicator) {
  Job* const job = Make(1);
  {
    const FormingHold forms(&table_, job);
    JobTable::Add(job);
  }
  EXPECT_EQ(job->ended_seconds, 0);
  table_.Remove(job, {.count = 1});
  EXPECT_NE(job->ended_seconds, 0);
}

TEST_F(JobTableTest, AHoldThatTakesAnotherJobLetsGoOfTheFirst) {
  Job* const first = Make(1);
  Job* const second = Make(2);
  FormingHold hold(&table_, first);
  hold = FormingHold(&table_, second);
  EXPECT_EQ(hold.job(), second);
  EXPECT_NE(first->ended_seconds, 0);
  EXPECT_EQ(second->ended_seconds, 0);
}

}  // namespace
}  // namespace harmonaize::daemon

#include "daemon/sharing/job_activity.h"

#include <gtest/gtest.h>

namespace harmonaize::daemon {
namespace {

TEST(JobActivity, IsSharedWhileAnotherJobIsActiveOrWasLately) {
  constexpr uint32_t kOne = 1;
  constexpr uint32_t kTwo = 2;
  JobActivity activity;
  constexpr uint64_t kLong = 10 * JobActivity::kLatelyNs;
  uint64_t now = kLong;
  EXPECT_FALSE(activity.Start(kOne, now));
  EXPECT_FALSE(activity.Start(kOne, now));
  activity.End(kOne, now);
  now += kLong;
  // An operation of the first job is under way all the time.
  EXPECT_TRUE(activity.Start(kTwo, now));
  activity.End(kOne, now);
  activity.End(kTwo, now);
  EXPECT_TRUE(activity.Start(kOne, now + JobActivity::kLatelyNs / 2));
  activity.End(kOne, now + JobActivity::kLatelyNs / 2);
  EXPECT_FALSE(activity.Start(kOne, now + kLong));
}

}  // namespace
}  // namespace harmonaize::daemon

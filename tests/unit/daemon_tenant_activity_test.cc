#include <gtest/gtest.h>

#include "daemon/tenant_activity.h"

namespace harmonaize::daemon {
namespace {

TEST(TenantActivity, IsSharedWhileAnotherTenantIsActiveOrWasLately) {
  Tenant alice{.user = 1};
  Tenant bob{.user = 2};
  TenantActivity activity;
  constexpr uint64_t kLong = 10 * TenantActivity::kLatelyNs;
  uint64_t now = kLong;
  EXPECT_FALSE(activity.Start(alice, now));
  EXPECT_FALSE(activity.Start(alice, now));
  activity.End(alice, now);
  now += kLong;
  // One of hers is under way all the time.
  EXPECT_TRUE(activity.Start(bob, now));
  activity.End(alice, now);
  activity.End(bob, now);
  EXPECT_TRUE(activity.Start(alice, now + TenantActivity::kLatelyNs / 2));
  activity.End(alice, now + TenantActivity::kLatelyNs / 2);
  EXPECT_FALSE(activity.Start(alice, now + kLong));
}

TEST(WeightOf, IsWhatTheProviderSaysByNameOrNumber) {
  const std::vector<ShareConfig> shares = {{"alice", 4}, {"1002", 0.5}};
  EXPECT_EQ(WeightOf(1001, "alice", shares), 4);
  EXPECT_EQ(WeightOf(1002, "bob", shares), 0.5);
  EXPECT_EQ(WeightOf(1003, "carol", shares), 1);
}

}  // namespace
}  // namespace harmonaize::daemon

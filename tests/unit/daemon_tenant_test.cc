#include <gtest/gtest.h>

#include "daemon/tenant.h"

namespace harmonaize::daemon {
namespace {

TEST(WeightOf, IsWhatTheProviderSaysByNameOrNumber) {
  const std::vector<ShareConfig> shares = {{"alice", 4}, {"1002", 0.5}, {"dora", 2, 1}};
  EXPECT_EQ(WeightOf(1001, "alice", shares), 4);
  EXPECT_EQ(WeightOf(1002, "bob", shares), 0.5);
  EXPECT_EQ(WeightOf(1003, "carol", shares), 1);
  EXPECT_GE(WeightOf(1004, "dora", shares), 100 * WeightOf(1001, "alice", shares));
}

}  // namespace
}  // namespace harmonaize::daemon

#include "daemon/elasticity/tenant_shares.h"

#include <gtest/gtest.h>

#include <map>

namespace harmonaize::daemon {
namespace {

using Shares = std::map<uint32_t, int32_t>;

TEST(TenantShares, AllHaveTheSameOfTooFewPlaces) {
  EXPECT_EQ(ShareOut(9, {{1, 100}, {2, 100}, {3, 100}}), (Shares{{1, 3}, {2, 3}, {3, 3}}));
}

TEST(TenantShares, WhatOneCannotUseIsTheOthers) {
  EXPECT_EQ(ShareOut(16, {{1, 100}, {2, 2}, {3, 100}}), (Shares{{1, 7}, {2, 2}, {3, 7}}));
  EXPECT_EQ(ShareOut(16, {{1, 100}, {2, 2}}), (Shares{{1, 14}, {2, 2}}));
}

TEST(TenantShares, NoneHasMoreThanItCouldUse) {
  EXPECT_EQ(ShareOut(16, {{1, 3}, {2, 2}}), (Shares{{1, 3}, {2, 2}}));
}

TEST(TenantShares, APlaceThatIsLeftOverIsSomebodys) {
  EXPECT_EQ(ShareOut(10, {{1, 100}, {2, 100}, {3, 100}}), (Shares{{1, 3}, {2, 3}, {3, 4}}));
}

TEST(TenantShares, WithoutPlacesNobodyHasAny) {
  EXPECT_EQ(ShareOut(0, {{1, 4}}), (Shares{{1, 0}}));
  EXPECT_TRUE(ShareOut(4, {}).empty());
}

}  // namespace
}  // namespace harmonaize::daemon

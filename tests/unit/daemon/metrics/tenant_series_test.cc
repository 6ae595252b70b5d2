#include "daemon/metrics/tenant_series.h"

#include <gtest/gtest.h>

#include <set>

namespace harmonaize::daemon {
namespace {

TenantFacts Seen(uint32_t number, uint64_t operations, bool is_here = true) {
  TenantFacts tenant;
  tenant.usage.number = number;
  tenant.usage.here = true;
  tenant.usage.name = fmt::format("tenant {}", number);
  tenant.usage.operations = operations;
  tenant.held[static_cast<size_t>(Resource::kConnections)] = is_here ? 1 : 0;
  return tenant;
}

/// Returns the operations under a label; nullopt if no tenant has it.
std::optional<uint64_t> OperationsOf(const std::vector<NamedTenant>& named,
                                     const std::string& label) {
  for (const NamedTenant& one : named) {
    if (one.label == label) return one.facts.usage.operations;
  }
  return std::nullopt;
}

TEST(TenantSeries, NamesAsManyAsItMayAndSumsUpTheOthers) {
  TenantSeries series(2);
  const auto named = series.Name({Seen(1, 10), Seen(2, 20), Seen(3, 30), Seen(4, 40)});
  ASSERT_EQ(named.size(), 3u);
  EXPECT_EQ(OperationsOf(named, "tenant 1"), 10u);
  EXPECT_EQ(OperationsOf(named, "tenant 2"), 20u);
  EXPECT_EQ(OperationsOf(named, "other"), 70u);
  EXPECT_EQ(named.back().facts.held[static_cast<size_t>(Resource::kConnections)], 2);
}

TEST(TenantSeries, KeepsTheNumberOfNamesWhateverTenantsComeAndGo) {
  TenantSeries series(5);
  for (uint32_t round = 0; round < 200; ++round) {
    std::vector<TenantFacts> tenants;
    for (uint32_t number = 0; number <= round; ++number) {
      tenants.push_back(Seen(number, 1, number + 3 > round));
    }
    const auto named = series.Name(tenants);
    ASSERT_LE(named.size(), 6u);
    EXPECT_TRUE(OperationsOf(named, fmt::format("tenant {}", round)).has_value());
  }
}

TEST(TenantSeries, GivesThePlaceOfOneThatHasLeftToANewcomer) {
  TenantSeries series(1);
  series.Name({Seen(1, 10)});
  // The one that is here keeps its place.
  auto named = series.Name({Seen(1, 11), Seen(2, 5)});
  EXPECT_EQ(OperationsOf(named, "tenant 1"), 11u);
  EXPECT_EQ(OperationsOf(named, "other"), 5u);
  named = series.Name({Seen(1, 11, false), Seen(2, 6)});
  EXPECT_FALSE(OperationsOf(named, "tenant 1").has_value());
  EXPECT_EQ(OperationsOf(named, "tenant 2"), 6u);
  // What it did under its name does not appear in the sum.
  EXPECT_EQ(OperationsOf(named, "other"), 5u);
  named = series.Name({Seen(1, 13), Seen(2, 6)});
  EXPECT_EQ(OperationsOf(named, "other"), 7u);
}

TEST(TenantSeries, TheSumNeverFalls) {
  TenantSeries series(3);
  uint64_t before = 0;
  for (uint64_t round = 0; round < 100; ++round) {
    std::vector<TenantFacts> tenants;
    for (uint32_t number = 0; number < 12; ++number) {
      tenants.push_back(Seen(number, round * (number + 1), (round / 5 + number) % 3 != 0));
    }
    const uint64_t sum = series.Name(tenants).back().facts.usage.operations;
    EXPECT_GE(sum, before);
    before = sum;
  }
  EXPECT_GT(before, 0u);
}

TEST(TenantSeries, LabelsDifferThoughNamesDoNot) {
  TenantSeries series(10);
  std::vector<TenantFacts> tenants;
  for (const char* name : {"alice", "alice", "other", "alice (1)", "ali\nce", "ali\tce", ""}) {
    tenants.push_back(Seen(static_cast<uint32_t>(tenants.size()), 1));
    tenants.back().usage.name = name;
  }
  std::set<std::string> labels;
  for (const NamedTenant& one : series.Name(tenants)) {
    EXPECT_TRUE(labels.insert(one.label).second) << one.label;
    EXPECT_EQ(one.label.find('\n'), std::string::npos);
  }
  EXPECT_EQ(labels.size(), tenants.size() + 1);
}

TEST(TenantSeries, ClaimsThatAreTooLargeDoNotWrapAround) {
  TenantSeries series(0);
  std::vector<TenantFacts> tenants = {Seen(1, 0), Seen(2, 0)};
  tenants[0].usage.claimed_bytes = tenants[1].usage.claimed_bytes = UINT64_MAX - 1;
  EXPECT_EQ(series.Name(tenants).back().facts.usage.claimed_bytes, UINT64_MAX);
}

}  // namespace
}  // namespace harmonaize::daemon

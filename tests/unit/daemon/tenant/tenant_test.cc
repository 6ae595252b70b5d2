#include "daemon/tenant/tenant.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "daemon/host/host_limits.h"
#include "daemon/identity/tenant_identity.h"
#include "daemon/quota/holdings.h"

namespace harmonaize::daemon {
namespace {

TEST(WeightOf, IsWhatTheProviderSays) {
  const std::vector<ShareConfig> shares = {
      {"alice", 4, 0, 1001}, {"1002", 0.5, 0, 1002}, {"nobody-here", 9}, {"dora", 2, 1, 1004}};
  EXPECT_EQ(WeightOf(1001, shares), 4);
  EXPECT_EQ(WeightOf(1002, shares), 0.5);
  EXPECT_EQ(WeightOf(1003, shares), 1);
  EXPECT_GE(WeightOf(1004, shares), 100 * WeightOf(1001, shares));
}

TEST(TenantNamed, FindsUsersNumbersAndTenantsWithASocket) {
  const TenantsConfig tenants{"socket", {{"team-a", "/run/team-a.sock"}}};
  EXPECT_EQ(TenantNamed("1002", tenants), 1002u);
  EXPECT_EQ(TenantNamed("root", tenants), 0u);
  EXPECT_EQ(TenantNamed("team-a", tenants), NumberFromName("team-a"));
  EXPECT_EQ(TenantNamed("no such user", tenants), std::nullopt);
  // It would be root's, cut to as many bits as users' numbers have.
  EXPECT_EQ(TenantNamed("4294967296", tenants), std::nullopt);
  EXPECT_EQ(TenantNamed("4294967295", tenants), std::nullopt);
  EXPECT_EQ(TenantNamed("4294967294", tenants), 4294967294u);
}

/// Returns a host's holdings with a limit for unique ids.
std::shared_ptr<HostHoldings> HostWith(ResourceLimit limit) {
  ResourceLimits limits{};
  limits[static_cast<size_t>(Resource::kUniqueIds)] = limit;
  return std::make_shared<HostHoldings>(limits);
}

int64_t TakesAtMost(const std::shared_ptr<Account>& account, std::vector<Holding>* held) {
  int64_t taken = 0;
  while (true) {
    Result<Holding> one = account->Take(Resource::kUniqueIds, 1);
    if (!one.ok()) return taken;
    held->push_back(std::move(*one));
    ++taken;
  }
}

TEST(Account, NobodyHoldsMoreThanIsLeftForOthers) {
  const auto host = HostWith({1000, 120});
  std::vector<Holding> held;
  EXPECT_EQ(TakesAtMost(std::make_shared<Account>(host, "first"), &held), 60);
  EXPECT_EQ(TakesAtMost(std::make_shared<Account>(host, "second"), &held), 30);
  EXPECT_EQ(TakesAtMost(std::make_shared<Account>(host, "third"), &held), 15);
  held.clear();
  EXPECT_EQ(host->held(Resource::kUniqueIds), 0);
}

TEST(Account, RefusesWithTheNameAndTheQuota) {
  const auto account = std::make_shared<Account>(HostWith({5, 1000}), "alice");
  std::vector<Holding> held;
  EXPECT_EQ(TakesAtMost(account, &held), 5);
  const Status refused = account->Take(Resource::kUniqueIds, 1).status();
  EXPECT_EQ(refused.code(), Code::kInvalidUsage);
  EXPECT_EQ(refused.message(),
            "user alice already holds 5 unique ids on this host, and 1 more would exceed the "
            "provider's quota of 5: ask the provider for a larger quota.unique_ids");
  EXPECT_EQ(account->held(Resource::kUniqueIds), 5);
}

TEST(Account, TakesNoAmountThatOverflows) {
  const auto account = std::make_shared<Account>(HostWith({INT64_MAX, INT64_MAX}), "alice");
  const Result<Holding> one = account->Take(Resource::kUniqueIds, 1);
  ASSERT_TRUE(one.ok());
  EXPECT_FALSE(account->Take(Resource::kUniqueIds, -1).ok());
  EXPECT_FALSE(account->Take(Resource::kUniqueIds, INT64_MAX).ok());
  EXPECT_EQ(account->held(Resource::kUniqueIds), 1);
}

TEST(Holding, GrowsAndIsGivenBackAsAWhole) {
  const auto account = std::make_shared<Account>(HostWith({10, 100}), "alice");
  {
    Result<Holding> held = account->Take(Resource::kUniqueIds, 4);
    ASSERT_TRUE(held.ok());
    EXPECT_TRUE(held->Add(5).ok());
    EXPECT_FALSE(held->Add(2).ok());
    const Holding moved = std::move(*held);
    EXPECT_EQ(account->held(Resource::kUniqueIds), 9);
  }
  EXPECT_EQ(account->held(Resource::kUniqueIds), 0);
}

TEST(LimitsOfHost, LeavesTheDaemonWhatItNeedsItself) {
  Config config;
  config.quota = {};
  const ResourceLimits limits = LimitsOfHost(
      config, {.descriptors = 1024, .mappings = 65530, .memory_bytes = int64_t{1} << 30});
  const auto all = [&](Resource resource) { return limits[static_cast<size_t>(resource)].for_all; };
  EXPECT_LE(4 * all(Resource::kConnections) + all(Resource::kRegionDescriptors), 1024 * 3 / 4);
  EXPECT_LE(all(Resource::kRegions), 65530 / 2);
  EXPECT_LE(all(Resource::kMemory), int64_t{1} << 29);
  const ResourceLimit& ids = limits[static_cast<size_t>(Resource::kUniqueIds)];
  EXPECT_EQ(ids.for_each, config.quota.unique_ids);
}

class SubordinateIdsTest : public ::testing::Test {
 protected:
  void Write(const std::string& text) {
    std::ofstream(file_) << text;
    // Times of files are coarse.
    std::filesystem::last_write_time(
        file_, std::filesystem::file_time_type::clock::now() + std::chrono::hours(++writes_));
  }
  ~SubordinateIdsTest() override { std::filesystem::remove(file_); }

  const std::filesystem::path file_ =
      std::filesystem::temp_directory_path() / ("subuid-" + std::to_string(getpid()));
  int writes_ = 0;
};

TEST_F(SubordinateIdsTest, CountAsTheirOwner) {
  SubordinateIds ids(file_);
  EXPECT_EQ(ids.OwnerOf(100000), 100000u);  // there is no file
  Write("1001:100000:65536\nroot:300000:10\nnobody-here:1:9\nrubbish\n1002:x:1\n");
  EXPECT_EQ(ids.OwnerOf(99999), 99999u);
  EXPECT_EQ(ids.OwnerOf(100000), 1001u);
  EXPECT_EQ(ids.OwnerOf(165535), 1001u);
  EXPECT_EQ(ids.OwnerOf(165536), 165536u);
  EXPECT_EQ(ids.OwnerOf(300009), 0u);
  EXPECT_EQ(ids.OwnerOf(5), 5u);
  Write("1005:100000:65536\n");
  EXPECT_EQ(ids.OwnerOf(100000), 1005u);
}

TEST(ContainerOf, IsThePathUpToTheContainersId) {
  const std::string id(64, 'a');
  EXPECT_EQ(ContainerOf("/system.slice/docker-" + id + ".scope"),
            "/system.slice/docker-" + id + ".scope");
  EXPECT_EQ(ContainerOf("/kubepods/burstable/pod12/" + id + "/init/more"),
            "/kubepods/burstable/pod12/" + id);
  EXPECT_EQ(ContainerOf("/system.slice/sshd.service"), "");
  EXPECT_EQ(ContainerOf("/"), "");
  EXPECT_EQ(ContainerOf(""), "");
}

TEST(ContainerOf, IsNothingThatAUserCanMake) {
  EXPECT_EQ(ContainerOf("/user.slice/user-1000.slice/user@1000.service/" + std::string(64, 'b')),
            "");
}

// What was never paid for cannot grow: a communicator for which nothing could be paid has one.
TEST(Holding, OfNothingCannotBeAddedTo) {
  Holding nothing;
  EXPECT_FALSE(nothing.Add(1).ok());
}

}  // namespace
}  // namespace harmonaize::daemon

#include "daemon/metrics/usage_ledger.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "daemon/communicator/communicator_registry.h"
#include "daemon/host/host_limits.h"
#include "daemon/runtime/background.h"
#include "daemon/tenant/tenant_table.h"
#include "src/base/log.h"

namespace harmonaize::daemon {
namespace {

const TenantIdentity kAlice{1000, 1000, 1000, "uid 1000"};
const TenantIdentity kBob{1001, 1001, 1001, "uid 1001"};

/// What a daemon has for its ledger.
struct DaemonLife {
  explicit DaemonLife(const std::string& folder)
      : tenants(std::make_shared<Accounts>(LimitsOfHost(Config(), CapacityOfHost())), {}),
        ledger({.tenants = &tenants,
                .communicators = &communicators,
                .background = &background,
                .state_path = folder}) {}

  TenantTable tenants;
  CommunicatorRegistry communicators;
  Background background;
  UsageLedger ledger;
};

class UsageLedgerTest : public ::testing::Test {
 protected:
  UsageLedgerTest() {
    std::string folder = ::testing::TempDir() + "usage.XXXXXX";
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    SetLog(LogLevel::kError, kLogAll, nullptr);
  }
  ~UsageLedgerTest() override {
    SetLog(LogLevel::kWarning, kLogAll, nullptr);
    std::filesystem::remove_all(folder_);
  }

  /// Has a tenant do something more.
  static void Use(DaemonLife& life, const TenantIdentity& who, uint64_t amount) {
    Tenant& tenant = *life.tenants.Of(who);
    tenant.operations += amount;
    tenant.bytes += 10 * amount;
    tenant.worked_ns += 100 * amount;
    tenant.claimed_operations += 1000 * amount;
    tenant.claimed_bytes += 10000 * amount;
    tenant.account->NoteRequestTime(static_cast<int64_t>(100000 * amount));
  }

  std::string file() const { return folder_ + "/usage/usage.json"; }

  std::string folder_;
};

void ExpectUsed(const TenantUsage& usage, uint64_t amount) {
  EXPECT_EQ(usage.operations, amount);
  EXPECT_EQ(usage.bytes, 10 * amount);
  EXPECT_EQ(usage.worked_ns, 100 * amount);
  EXPECT_EQ(usage.claimed_operations, 1000 * amount);
  EXPECT_EQ(usage.claimed_bytes, 10000 * amount);
  EXPECT_EQ(usage.request_ns, 100000 * amount);
  EXPECT_GT(usage.since_seconds, 0);
}

TEST_F(UsageLedgerTest, KnowsWhatEachTenantHasUsed) {
  DaemonLife life("");
  EXPECT_TRUE(life.ledger.Look().empty());
  Use(life, kAlice, 3);
  Use(life, kBob, 5);
  const std::vector<TenantUsage> usage = life.ledger.Look();
  ASSERT_EQ(usage.size(), 2u);
  EXPECT_EQ(usage[0].key, "uid 1000");
  ExpectUsed(usage[0], 3);
  ExpectUsed(usage[1], 5);
  EXPECT_TRUE(life.ledger.KeepNow().ok());
}

TEST_F(UsageLedgerTest, ALaterDaemonGoesOnFromThere) {
  double since = 0;
  {
    DaemonLife first(folder_);
    Use(first, kAlice, 3);
    Use(first, kBob, 5);
    since = first.ledger.Look().front().since_seconds;
    ASSERT_TRUE(first.ledger.KeepNow().ok());
  }
  DaemonLife second(folder_);
  Use(second, kAlice, 1);
  for (int i = 0; i < 2; ++i) {
    const std::vector<TenantUsage> usage = second.ledger.Look();
    ASSERT_EQ(usage.size(), 2u);
    ExpectUsed(usage[0], 4);
    EXPECT_TRUE(usage[0].here);
    EXPECT_NEAR(usage[0].since_seconds, since, 1e-3);
    ExpectUsed(usage[1], 5);
    EXPECT_FALSE(usage[1].here);
  }
}

TEST_F(UsageLedgerTest, OthersCannotReadTheFile) {
  DaemonLife life(folder_);
  Use(life, kAlice, 1);
  ASSERT_TRUE(life.ledger.KeepNow().ok());
  struct stat found {};
  ASSERT_EQ(stat((folder_ + "/usage").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0700u);
}

TEST_F(UsageLedgerTest, WritesInTheBackgroundToo) {
  {
    DaemonLife life(folder_);
    Use(life, kAlice, 7);
    life.ledger.KeepIfDue(1);
    for (int i = 0; i < 20'000 && !std::filesystem::exists(file()); ++i) usleep(1000);
  }
  DaemonLife next(folder_);
  const std::vector<TenantUsage> usage = next.ledger.Look();
  ASSERT_EQ(usage.size(), 1u);
  ExpectUsed(usage[0], 7);
}

TEST_F(UsageLedgerTest, ADamagedFileIsSetAside) {
  std::filesystem::create_directories(folder_ + "/usage");
  std::ofstream(file()) << "{\"version\":1,\"tenants\":[{\"key\":";
  DaemonLife life(folder_);
  EXPECT_TRUE(life.ledger.Look().empty());
  EXPECT_FALSE(std::filesystem::exists(file()));
  EXPECT_TRUE(std::filesystem::exists(file() + ".damaged"));
  Use(life, kAlice, 1);
  EXPECT_TRUE(life.ledger.KeepNow().ok());
}

TEST_F(UsageLedgerTest, AFolderThatOthersMayWriteToIsNotUsed) {
  std::filesystem::permissions(folder_, std::filesystem::perms::all);
  DaemonLife life(folder_);
  Use(life, kAlice, 1);
  EXPECT_TRUE(life.ledger.KeepNow().ok());
  EXPECT_FALSE(std::filesystem::exists(file()));
}

TEST_F(UsageLedgerTest, ThoseThatUsedLeastAreSummedUpWhereThereAreTooMany) {
  constexpr uint32_t kTenants = UsageLedger::kMostKept + 10;
  {
    DaemonLife life(folder_);
    for (uint32_t i = 1; i <= kTenants; ++i) {
      Use(life, {.number = i, .across_hosts = i, .user = i, .name = fmt::format("uid {}", i)}, i);
    }
    ASSERT_TRUE(life.ledger.KeepNow().ok());
  }
  DaemonLife next(folder_);
  const std::vector<TenantUsage> usage = next.ledger.Look();
  ASSERT_EQ(usage.size(), UsageLedger::kMostKept + 1);
  uint64_t sum = 0;
  for (const TenantUsage& one : usage) {
    sum += one.operations;
    if (one.key.empty()) ExpectUsed(one, 55);  // 1 + ... + 10
  }
  EXPECT_EQ(sum, uint64_t{kTenants} * (kTenants + 1) / 2);
}

TEST(UsageFile, ReadsWhatItWrites) {
  TenantUsage one{.key = "uid 0 in /a\"b", .name = "al\nice", .since_seconds = 12.5};
  one.operations = UINT64_MAX;
  one.claimed_bytes = 7;
  const auto read = ParseUsageFile(FormatUsageFile({one}));
  ASSERT_TRUE(read.ok()) << read.status().message();
  ASSERT_EQ(read->size(), 1u);
  EXPECT_EQ(read->front().key, one.key);
  EXPECT_EQ(read->front().name, one.name);
  EXPECT_EQ(read->front().since_seconds, 12.5);
  EXPECT_EQ(read->front().operations, UINT64_MAX);
  EXPECT_EQ(read->front().claimed_bytes, 7u);
}

TEST(UsageFile, RefusesWhatIsWrongAnywhere) {
  const std::string good = FormatUsageFile({TenantUsage{.key = "a", .name = "a"}});
  ASSERT_TRUE(ParseUsageFile(good).ok());
  const auto with = [&good](const std::string& from, const std::string& to) {
    std::string text = good;
    EXPECT_NE(text.find(from), std::string::npos) << from;
    return text.replace(text.find(from), from.size(), to);
  };
  for (const std::string& bad :
       {std::string(), std::string("[]"), std::string("7"), good.substr(0, good.size() / 2),
        with("\"version\": 1", "\"version\": 2"), with("\"operations\": 0", "\"operations\": -1"),
        with("\"operations\": 0", "\"operations\": 1.5"), with("\"since\": 0.0", "\"since\": \"\""),
        with("\"since\": 0.0", "\"since\": -1"), with("\"key\": \"a\"", "\"key\": 7"),
        with("\"bytes\"", "\"octets\"")}) {
    EXPECT_FALSE(ParseUsageFile(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace harmonaize::daemon

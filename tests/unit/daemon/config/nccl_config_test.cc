// [nccl] and [ras] of the daemon's configuration.

#include "daemon/config/nccl_config.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "daemon/config/config.h"
#include "daemon/config/nccl_names.h"

namespace harmonaize::daemon {
namespace {

class NcclConfigTest : public ::testing::Test {
 protected:
  ~NcclConfigTest() override { std::remove(path_.c_str()); }
  Result<Config> Load(const std::string& text) {
    std::ofstream(path_) << text;
    return LoadConfig(path_);
  }
  /// Returns what is wrong, after the file's name.
  std::string Problem(const std::string& text) {
    const Result<Config> config = Load(text);
    if (config.ok()) return "nothing";
    const std::string what = config.status().message();
    EXPECT_EQ(what.rfind(path_ + ":", 0), 0u) << what;
    return what.substr(path_.size() + 1);
  }
  const std::string path_ = "/tmp/harmonaize-nccl-config-" + std::to_string(getpid()) + ".toml";
};

TEST_F(NcclConfigTest, StatesSettingsInTheOrderOfTheirNames) {
  EXPECT_TRUE(LoadConfig("")->nccl.settings.empty());
  const Result<Config> config =
      Load("[nccl.settings]\nNCCL_SOCKET_IFNAME = \"eth0\"\nNCCL_IB_HCA = \"mlx5\"\n");
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->nccl.settings,
            (std::vector<NcclSetting>{{"NCCL_IB_HCA", "mlx5"}, {"NCCL_SOCKET_IFNAME", "eth0"}}));
  const Result<Config> again = Load(ConfigTemplate(*config));
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->nccl.settings, config->nccl.settings);
  EXPECT_TRUE(Load(ConfigTemplate(*LoadConfig(""))).ok());
}

TEST_F(NcclConfigTest, NamesTheNearestGoodName) {
  const std::string problem = Problem("[nccl.settings]\nNCCL_SOCKET_IFNAMES = \"eth0\"\n");
  EXPECT_EQ(problem.rfind("2:1: unknown key 'nccl.settings.NCCL_SOCKET_IFNAMES'", 0), 0u)
      << problem;
  EXPECT_NE(problem.find("NCCL_SOCKET_IFNAME'"), std::string::npos) << problem;
  EXPECT_NE(Problem("[nccl.settings]\nLD_PRELOAD = \"/x.so\"\n").find("unknown key"),
            std::string::npos);
}

TEST_F(NcclConfigTest, SaysWhyANameIsNotForProviders) {
  for (const std::string_view name : ExcludedNcclNames()) {
    EXPECT_FALSE(WhyNotForProviders(name).empty()) << name;
    const std::string problem = Problem("[nccl.settings]\n" + std::string(name) + " = \"1\"\n");
    EXPECT_NE(problem.find("is not for providers: it "), std::string::npos) << problem;
    EXPECT_EQ(problem.rfind("2:", 0), 0u) << problem;
  }
  for (const std::string_view name : KnownNcclNames()) {
    EXPECT_TRUE(IsNcclSettingName(name)) << name;
    EXPECT_TRUE(WhyNotForProviders(name).empty()) << name;
  }
}

TEST_F(NcclConfigTest, TakesNamesOfLaterReleasesWhereTheProviderSaysSo) {
  const std::string settings = "[nccl.settings]\nNCCL_BRAND_NEW = \"1\"\n";
  EXPECT_NE(Problem(settings).find("unknown key"), std::string::npos);
  const Result<Config> config = Load("[nccl]\nmore_names = [\"NCCL_BRAND_NEW\"]\n" + settings);
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->nccl.settings, (std::vector<NcclSetting>{{"NCCL_BRAND_NEW", "1"}}));
  const Result<Config> again = Load(ConfigTemplate(*config));
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->nccl.settings, config->nccl.settings);
  // But none that would be code of the provider's.
  for (const char* name : {"NCCL_NEW_PLUGIN", "LD_PRELOAD", "PATH", "NCCL_NEW_DUMP_FILE"}) {
    const std::string problem = Problem("[nccl]\nmore_names = [\"" + std::string(name) + "\"]\n");
    EXPECT_EQ(problem.rfind("2:14: '" + std::string(name) + "': ", 0), 0u) << problem;
  }
}

TEST_F(NcclConfigTest, RefusesValuesThatNoEnvironmentCouldHave) {
  EXPECT_NE(Problem("[nccl.settings]\nNCCL_IB_TC = 106\n").find("must be a string, as \"106\""),
            std::string::npos);
  EXPECT_NE(Problem("[nccl.settings]\nNCCL_IB_TC = \"\"\n").find("1 to 1023 printable"),
            std::string::npos);
  EXPECT_NE(Problem("[nccl.settings]\nNCCL_IB_TC = \"a\\nb\"\n").find("printable"),
            std::string::npos);
  EXPECT_NE(Problem("[nccl]\nsettings = \"NCCL_IB_TC=1\"\n").find("must be a table"),
            std::string::npos);
}

TEST_F(NcclConfigTest, BoundsAllSettingsTogether) {
  std::string text = "[nccl.settings]\n";
  for (int i = 0; i < 33; ++i) {
    text += std::string(KnownNcclNames()[static_cast<size_t>(i)]) + " = \"" +
            std::string(1000, 'x') + "\"\n";
  }
  EXPECT_NE(Problem(text).find("may have 128 names, and 32768 bytes"), std::string::npos);
}

TEST_F(NcclConfigTest, KeepsRasToLoopback) {
  EXPECT_EQ(LoadConfig("")->ras.listen, "");
  for (const char* address : {"127.0.0.1:28028", "127.0.0.1", "[::1]:0", "127.1.2.3:5"}) {
    const Result<Config> config = Load("[ras]\nlisten = \"" + std::string(address) + "\"\n");
    ASSERT_TRUE(config.ok()) << config.status().message();
    EXPECT_EQ(config->ras.listen, address);
    EXPECT_TRUE(Load(ConfigTemplate(*config)).ok());
  }
  for (const char* address : {"0.0.0.0:28028", "10.0.0.1:28028", "localhost:28028", "[::]:28028",
                              "[::ffff:10.0.0.1]:1", "nonsense"}) {
    const std::string problem = Problem("[ras]\nlisten = \"" + std::string(address) + "\"\n");
    EXPECT_EQ(problem.rfind("2:10: 'ras.listen' must be a loopback address", 0), 0u) << problem;
  }
}

TEST(NcclSettingsInForce, ChangeForWhoeverAsksLater) {
  NcclSettingsInForce in_force({.settings = {{"NCCL_IB_TC", "1"}}});
  const auto before = in_force.text();
  in_force.Set({.settings = {{"NCCL_IB_TC", "2"}}});
  EXPECT_EQ(*before, "NCCL_IB_TC=1\n");
  EXPECT_EQ(*in_force.text(), "NCCL_IB_TC=2\n");
}

}  // namespace
}  // namespace harmonaize::daemon

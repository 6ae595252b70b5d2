#include "daemon/config/config.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

namespace harmonaize::daemon {
namespace {

class ConfigTest : public ::testing::Test {
 protected:
  ~ConfigTest() override { std::remove(path_.c_str()); }
  Result<Config> Load(const std::string& text) {
    std::ofstream(path_) << text;
    return LoadConfig(path_);
  }
  const std::string path_ = "/tmp/harmonaize-config-test-" + std::to_string(getpid()) + ".toml";
};

TEST_F(ConfigTest, WorksWithNothing) {
  const Result<Config> config = LoadConfig("");
  ASSERT_TRUE(config.ok());
  EXPECT_FALSE(config->socket_path.empty());
  EXPECT_GE(config->workers, 1);
  EXPECT_GT(config->quota.region_bytes, 0);
}

TEST_F(ConfigTest, ReadsWhatIsGiven) {
  const Result<Config> config = Load(
      "[workers]\ncount = 3\nplacement = \"nodes\"\ncpus = [0, 1]\n[quota]\nsessions = "
      "5\n[socket]\nmode = 0o660\n");
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->workers, 3);
  EXPECT_EQ(config->worker_placement, "nodes");
  EXPECT_EQ(config->worker_cpus.size(), 2u);
  EXPECT_EQ(config->quota.sessions, 5);
  EXPECT_EQ(config->socket_mode, 0660);
}

TEST_F(ConfigTest, WritesWhatHoldsOnEveryHost) {
  const std::string text = ConfigTemplate(*LoadConfig(""));
  EXPECT_NE(text.find("count = 0 "), std::string::npos) << text;
  EXPECT_NE(text.find("region_bytes = 0 "), std::string::npos) << text;
  const std::string chosen = ConfigTemplate(*Load("[workers]\ncount = 1000\n"));
  EXPECT_NE(chosen.find("count = 1000 "), std::string::npos) << chosen;
}

TEST_F(ConfigTest, ReadsTheSharesOfTenants) {
  const Result<Config> config =
      Load("[[share]]\nuser = \"alice\"\nweight = 4\npriority = 2\n[[share]]\nuser = \"1002\"\n");
  ASSERT_TRUE(config.ok()) << config.status().message();
  ASSERT_EQ(config->shares.size(), 2u);
  EXPECT_EQ(config->shares[0].user, "alice");
  EXPECT_EQ(config->shares[0].weight, 4);
  EXPECT_EQ(config->shares[0].priority, 2);
  EXPECT_EQ(config->shares[1].weight, 1);
  EXPECT_EQ(config->shares[1].priority, 0);
  const Result<Config> again = Load(ConfigTemplate(*config));
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->shares.size(), 2u);
  EXPECT_FALSE(Load("[[share]]\nweight = 4\n").ok());
  EXPECT_FALSE(Load("[[share]]\nuser = \"alice\"\nweight = 0\n").ok());
  EXPECT_FALSE(Load("[[share]]\nuser = \"alice\"\npriority = 4\n").ok());
}

TEST_F(ConfigTest, ReadsWhetherSizesFollowTheLoad) {
  EXPECT_FALSE(LoadConfig("")->sizing.enabled);
  const std::string text =
      "[elastic]\nenabled = true\nplaces = 8\nlook_every_seconds = 1\nsettle_seconds = 5\n";
  const Result<Config> config = Load(text);
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_TRUE(config->sizing.enabled);
  EXPECT_EQ(config->sizing.places, 8);
  const Result<Config> again = Load(ConfigTemplate(*config));
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->sizing.look_every_seconds, 1);
  EXPECT_EQ(again->sizing.settle_seconds, 5);
  const Result<Config> alone = Load(text + "[cluster]\naddress = \"10.0.0.1:7400\"\n");
  ASSERT_FALSE(alone.ok());
  EXPECT_NE(alone.status().message().find("needs 'cluster.controller'"), std::string::npos)
      << alone.status().message();
  EXPECT_TRUE(
      Load(text + "[cluster]\naddress = \"10.0.0.1:7400\"\ncontroller = \"10.0.0.2:7400\"\n").ok())
      << "it needs no fabric file for that";
  EXPECT_FALSE(Load("[cluster]\ncontroller = \"10.0.0.2:7400\"\n").ok());
}

TEST_F(ConfigTest, LeavesTheInlinePathToCalibration) {
  const Result<Config> config = LoadConfig("");
  ASSERT_TRUE(config.ok());
  EXPECT_TRUE(config->inline_path.enabled);
  EXPECT_EQ(config->inline_path.registered_bytes, -1);
  EXPECT_EQ(config->inline_path.heap_bytes, -1);
  EXPECT_EQ(config->inline_path.stream_bytes, -1);
}

TEST_F(ConfigTest, ReadsTheInlinePath) {
  const Result<Config> config = Load(
      "[state]\npath = \"/somewhere\"\n[inline]\nenabled = false\nregistered_bytes = 0\n"
      "heap_bytes = 65536\nstream_bytes = 1\n");
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->state_path, "/somewhere");
  EXPECT_FALSE(config->inline_path.enabled);
  EXPECT_EQ(config->inline_path.registered_bytes, 0);
  EXPECT_EQ(config->inline_path.heap_bytes, 65536);
  EXPECT_EQ(config->inline_path.stream_bytes, 1);
  const Result<Config> again = Load(ConfigTemplate(*config));
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->state_path, "/somewhere");
  EXPECT_FALSE(again->inline_path.enabled);
  EXPECT_EQ(again->inline_path.heap_bytes, 65536);
  EXPECT_FALSE(Load("[inline]\nheap_bytes = -2\n").ok());
}

TEST_F(ConfigTest, ReadsWhetherToMeasureAgain) {
  EXPECT_TRUE(LoadConfig("")->measure_again);
  const Result<Config> config = Load("[calibration]\nagain = false\n");
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_FALSE(config->measure_again);
  const Result<Config> again = Load(ConfigTemplate(*config));
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_FALSE(again->measure_again);
}

TEST_F(ConfigTest, NamesWhatIsWrong) {
  const Result<Config> config = Load("[quota]\nsesions = 5\n");
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.status().message(),
            path_ + ":2:1: unknown key 'quota.sesions', did you mean 'quota.sessions'?");
  EXPECT_FALSE(LoadConfig("/nowhere/provider.toml").ok());
}

TEST_F(ConfigTest, WhatItPrintsItReads) {
  const Result<Config> config = Load("[workers]\ncount = 7\ncpus = [1]\n");
  ASSERT_TRUE(config.ok());
  const Result<Config> again = Load(ConfigTemplate(*config));
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->workers, 7);
  EXPECT_EQ(again->worker_placement, "auto");
  EXPECT_FALSE(Load("[workers]\nplacement = \"somewhere\"\n").ok());
  EXPECT_EQ(again->socket_mode, config->socket_mode);
}

TEST_F(ConfigTest, WhatItPrintsOfAnyTextItReads) {
  const Result<Config> config = Load(R"(
[socket]
path = "/run/a \\ \"b\" \t\u001b.sock"
[cluster]
fabric = 'C:\caf "e".toml'
[[share]]
user = "\"al\u00edce\""
)");
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->socket_path, "/run/a \\ \"b\" \t\x1b.sock");
  const Result<Config> again = Load(ConfigTemplate(*config));
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->socket_path, config->socket_path);
  EXPECT_EQ(again->cluster.fabric, config->cluster.fabric);
  EXPECT_EQ(again->shares[0].user, config->shares[0].user);
}

TEST_F(ConfigTest, WhatItQuotesOfADocumentIsClean) {
  for (const char* text : {"\"\\u001b[2J\" = 1\n", "[log]\nlevel = \"\\u0007\"\n", "a = \x1b\n"}) {
    const Result<Config> config = Load(text);
    ASSERT_FALSE(config.ok());
    EXPECT_EQ(config.status().message().find_first_of("\x1b\x07\n"), std::string::npos);
  }
  // A letter where a key might begin, beyond ASCII.
  EXPECT_FALSE(Load("\xc3\xbb").ok());
}

}  // namespace
}  // namespace harmonaize::daemon

#include "cli/run/private_daemon.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/cli/launched.h"

namespace harmonaize {
namespace {

namespace fs = std::filesystem;

class PrivateDaemonTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<TemporaryFolder> folder = TemporaryFolder::Make();
    ASSERT_TRUE(folder.ok()) << folder.status().message();
    folder_ = std::move(*folder);
    options_.program = folder_.path() + "/daemon";
    ::sigemptyset(&options_.signal_mask);
  }

  void Write(const std::string& body) {
    std::ofstream(options_.program) << "#!/bin/sh\n" << body;
    fs::permissions(options_.program, fs::perms::owner_all);
  }

  TemporaryFolder folder_;
  PrivateDaemon::Options options_;
};

TEST_F(PrivateDaemonTest, GivesUpOnOneThatNeverSaysReady) {
  Write("echo thinking >&2; exec sleep 1000\n");
  options_.ready_within = std::chrono::milliseconds(300);
  const Result<PrivateDaemon> daemon = PrivateDaemon::Start(options_);
  ASSERT_FALSE(daemon.ok());
  EXPECT_EQ(daemon.status().code(), Code::kUnavailable);
  EXPECT_NE(daemon.status().message().find("not ready within 0.3 s"), std::string::npos);
  EXPECT_NE(daemon.status().message().find("thinking"), std::string::npos);
}

TEST_F(PrivateDaemonTest, TellsWhatOneSaidThatFailed) {
  Write("echo out of luck >&2; exit 7\n");
  const Result<PrivateDaemon> daemon = PrivateDaemon::Start(options_);
  ASSERT_FALSE(daemon.ok());
  EXPECT_NE(daemon.status().message().find("exited with status 7"), std::string::npos);
  EXPECT_NE(daemon.status().message().find("out of luck"), std::string::npos);
}

TEST_F(PrivateDaemonTest, MissingProgramIsAnError) {
  const Result<PrivateDaemon> daemon = PrivateDaemon::Start(options_);
  ASSERT_FALSE(daemon.ok());
  EXPECT_NE(daemon.status().message().find(options_.program), std::string::npos);
}

TEST(TemporaryFolderTest, IsNotWhereAStrangerCouldReplaceIt) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  const Result<TemporaryFolder> parent = TemporaryFolder::Make();
  ASSERT_TRUE(parent.ok()) << parent.status().message();
  setenv("TMPDIR", parent->path().c_str(), 1);
  const Result<TemporaryFolder> own = TemporaryFolder::Make();
  ASSERT_EQ(chown(parent->path().c_str(), 64002, 64002), 0);
  const Result<TemporaryFolder> strangers = TemporaryFolder::Make();
  unsetenv("TMPDIR");
  ASSERT_TRUE(own.ok() && strangers.ok());
  EXPECT_EQ(own->path().rfind(parent->path() + "/", 0), 0u) << own->path();
  EXPECT_EQ(strangers->path().rfind("/tmp/harmonaize-run-", 0), 0u) << strangers->path();
  EXPECT_EQ(strangers->path().rfind(parent->path(), 0), std::string::npos);
}

TEST(TemporaryFolderTest, IsPrivateAndGoes) {
  std::string path;
  {
    Result<TemporaryFolder> folder = TemporaryFolder::Make();
    ASSERT_TRUE(folder.ok());
    path = folder->path();
    EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_all);
    std::ofstream(path + "/file") << "x";
  }
  EXPECT_FALSE(fs::exists(path));
}

}  // namespace
}  // namespace harmonaize

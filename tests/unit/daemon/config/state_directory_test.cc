#include "daemon/config/state_directory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "daemon/config/state_lock.h"

namespace harmonaize::daemon {
namespace {

class StateDirectoryTest : public ::testing::Test {
 protected:
  StateDirectoryTest() {
    unsetenv("STATE_DIRECTORY");
    unsetenv("XDG_STATE_HOME");
  }
};

TEST_F(StateDirectoryTest, IsWhatSystemdGives) {
  setenv("STATE_DIRECTORY", "/var/lib/a:/var/lib/b", 1);
  EXPECT_EQ(DefaultStateDirectory(), "/var/lib/a");
}

TEST_F(StateDirectoryTest, IsTheSystemsOrTheUsers) {
  setenv("XDG_STATE_HOME", "/home/u/.state", 1);
  EXPECT_EQ(DefaultStateDirectory(),
            geteuid() == 0 ? "/var/lib/harmonaize" : "/home/u/.state/harmonaize");
  // By the specification of these variables a relative path is as good as none.
  setenv("XDG_STATE_HOME", "state", 1);
  setenv("HOME", "/home/u", 1);
  EXPECT_EQ(DefaultStateDirectory(),
            geteuid() == 0 ? "/var/lib/harmonaize" : "/home/u/.local/state/harmonaize");
}

TEST_F(StateDirectoryTest, ReplacesAFileWhole) {
  char name[] = "/tmp/harmonaize-state-test-XXXXXX";
  const std::string folder = mkdtemp(name);
  for (const std::string text : {"first", "2", ""}) {
    const Status written = ReplaceStateFile(folder + "/deep/er", "name", text);
    ASSERT_TRUE(written.ok()) << written.message();
    std::ifstream file(folder + "/deep/er/name");
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), text);
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder + "/deep/er"), {}), 1);
  // A folder in the file's place: refused, named, and nothing left behind.
  std::filesystem::create_directories(folder + "/deep/er/taken/by");
  const Status refused = ReplaceStateFile(folder + "/deep/er", "taken", "text");
  EXPECT_EQ(refused.code(), Code::kSystemError);
  EXPECT_NE(refused.message().find(folder + "/deep/er/taken"), std::string::npos);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder + "/deep/er"), {}), 2);
  std::filesystem::remove_all(folder);
}

TEST_F(StateDirectoryTest, BelongsToOneDaemonAtATime) {
  char name[] = "/tmp/harmonaize-state-test-XXXXXX";
  const std::string folder = std::string(mkdtemp(name)) + "/state";
  {
    const Result<FileDescriptor> first = LockState(folder, "/run/one.sock");
    ASSERT_TRUE(first.ok()) << first.status().message();
    EXPECT_TRUE(first->valid());
    EXPECT_NE(fcntl(first->get(), F_GETFD) & FD_CLOEXEC, 0) << "or it would outlive a restart";
    const Result<FileDescriptor> second = LockState(folder, "/run/two.sock");
    EXPECT_EQ(second.status().code(), Code::kInvalidUsage);
    EXPECT_EQ(second.status().message(),
              "the state directory " + folder + " belongs to another daemon, process " +
                  std::to_string(getpid()) +
                  ", which listens at /run/one.sock; stop that one first, or give this one a "
                  "folder of its own as state.path");
  }
  const Result<FileDescriptor> next = LockState(folder, "/run/two.sock");
  ASSERT_TRUE(next.ok()) << next.status().message();
  EXPECT_NE(LockState(folder, "").status().message().find("/run/two.sock;"), std::string::npos)
      << "what a holder said before is gone";
  std::filesystem::remove_all(std::filesystem::path(folder).parent_path());
}

TEST_F(StateDirectoryTest, IsNotLockedWhereItCannotBeUsed) {
  EXPECT_FALSE(LockState("", "/run/one.sock").value().valid());
  EXPECT_FALSE(LockState("/proc/no/such", "/run/one.sock").value().valid());
}

TEST_F(StateDirectoryTest, IsNoFolderInWhichStrangersWrite) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  char name[] = "/tmp/harmonaize-state-test-XXXXXX";
  const std::string folder = mkdtemp(name);
  EXPECT_TRUE(CheckStateFolder(folder + "/missing").ok());
  umask(0);
  EXPECT_TRUE(ReplaceStateFile(folder + "/made", "name", "text").ok());
  umask(022);
  EXPECT_TRUE(CheckStateFolder(folder + "/made").ok());

  std::filesystem::permissions(folder, std::filesystem::perms(01777));
  EXPECT_EQ(CheckStateFolder(folder).code(), Code::kInvalidUsage);
  std::filesystem::permissions(folder, std::filesystem::perms(0755));
  ASSERT_EQ(chown(folder.c_str(), 64002, 64002), 0);
  const Status refused = ReplaceStateFile(folder, "name", "text");
  EXPECT_EQ(refused.code(), Code::kInvalidUsage);
  EXPECT_NE(refused.message().find("belongs to user 64002"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder + "/name"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace harmonaize::daemon

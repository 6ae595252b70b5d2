#include "src/ipc/daemon_trust.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "src/base/log.h"
#include "src/ipc/control_socket.h"
#include "src/ipc/daemon_search.h"
#include "src/ipc/socket_folder.h"
#include "tests/support/other_users.h"
#include "tests/support/text_checks.h"

namespace harmonaize {
namespace {

namespace fs = std::filesystem;
using testing::kAlice;
using testing::kBob;

/// A folder of the test's own, in which everything is root's: only root can make that.
class DaemonTrustTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root can make files of root and of others";
    char name[] = "/tmp/harmonaize-trust-test-XXXXXX";
    folder_ = mkdtemp(name);
    ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  }
  void TearDown() override {
    if (!folder_.empty()) fs::remove_all(folder_);
  }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  std::string Write(const std::string& name, const std::string& text, mode_t mode = 0644) {
    std::ofstream(Path(name)) << text;
    EXPECT_EQ(chmod(Path(name).c_str(), mode), 0);
    return Path(name);
  }
  Result<std::optional<uid_t>> Read(const std::string& text) {
    return ReadDaemonUser(Write("daemon-user", text));
  }
  static void Give(const std::string& path, uid_t user) {
    ASSERT_EQ(lchown(path.c_str(), user, user), 0);
  }
  static void ExpectNotHeeded(const std::string& path, const std::string& why) {
    const Result<std::optional<uid_t>> user = ReadDaemonUser(path);
    ASSERT_FALSE(user.ok());
    ExpectHolds(user.status().message(), why);
  }

  std::string folder_;
};

TEST_F(DaemonTrustTest, ReadsANameOrANumber) {
  for (const std::string text : {"64001", "64001\n", "  64001 \t\n\n"}) {
    const Result<std::optional<uid_t>> user = Read(text);
    ASSERT_TRUE(user.ok()) << user.status().message();
    EXPECT_EQ(*user, kAlice);
  }
  const Result<std::optional<uid_t>> root = Read("root\n");
  ASSERT_TRUE(root.ok()) << root.status().message();
  EXPECT_EQ(*root, uid_t{0});
}

TEST_F(DaemonTrustTest, NamesNobodyWithoutAFile) {
  for (const std::string& path : {Path("none"), Path("none/none")}) {
    const Result<std::optional<uid_t>> user = ReadDaemonUser(path);
    ASSERT_TRUE(user.ok()) << user.status().message();
    EXPECT_FALSE(user->has_value());
  }
}

TEST_F(DaemonTrustTest, RefusesTextsThatNameNobody) {
  ExpectNotHeeded(Write("a", " \n"), "is empty");
  ExpectNotHeeded(Write("a", "64001 64002"), "more than one word");
  ExpectNotHeeded(Write("a", std::string(5000, '1')), "too long");
  for (const char* nobody : {"-1", "4294967295", "4294967296", "0x10", "no-such-user-here"}) {
    ExpectNotHeeded(Write("a", nobody), "names no user");
  }
}

TEST_F(DaemonTrustTest, RefusesAFileInWhichOthersHadAHand) {
  const std::string file = Write("a", "64001");
  Give(file, kBob);
  ExpectNotHeeded(file, "belongs to user 64002");
  ExpectNotHeeded(Write("b", "64001", 0664), "may be written by others");
  ExpectNotHeeded(Write("c", "64001", 0646), "may be written by others");
  // Others could put another file of root's in its place.
  Write("d", "64001");
  ASSERT_EQ(chmod(folder_.c_str(), 01777), 0);
  ExpectNotHeeded(Path("d"), folder_ + " may be written by others");
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  Give(folder_, kBob);
  ExpectNotHeeded(Path("d"), folder_ + " belongs to user 64002");
}

TEST_F(DaemonTrustTest, FollowsLinksOfRootAlone) {
  Write("file", "64001");
  fs::create_symlink("file", Path("link"));
  ASSERT_TRUE(ReadDaemonUser(Path("link")).ok());
  Give(Path("link"), kBob);
  ExpectNotHeeded(Path("link"), "link belongs to user 64002");
  Give(Path("link"), 0);
  Give(Path("file"), kBob);
  ExpectNotHeeded(Path("link"), "belongs to user 64002");
}

TEST_F(DaemonTrustTest, DoesNotWaitForAPipe) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0644), 0);
  ExpectNotHeeded(Path("pipe"), "is no file");
  fs::create_directory(Path("folder"));
  ExpectNotHeeded(Path("folder"), "is no file");
}

TEST_F(DaemonTrustTest, BelievesRootOneselfAndTheNamedUser) {
  const UserNumbers all{.known = UserNumbers::Known::kAll};
  const SocketPlace place{Path("x.sock")};
  const std::string none = Path("none");
  EXPECT_EQ(testing::StatusOf(testing::StartAs(
                kAlice,
                [&] {
                  EXPECT_TRUE(CheckDaemonUser(0, place, none, all).ok());
                  EXPECT_TRUE(CheckDaemonUser(kAlice, place, none, all).ok());
                  EXPECT_EQ(CheckDaemonUser(kBob, place, none, all).code(), Code::kUnavailable);
                  EXPECT_EQ(CheckDaemonUser(65534, place, none, all).code(), Code::kUnavailable);
                  return 0;
                })),
            0);
  const std::string file = Write("daemon-user", "64002");
  EXPECT_TRUE(CheckDaemonUser(kBob, place, file, all).ok());
  const Status refused = CheckDaemonUser(kAlice, place, file, all);
  ExpectHolds(refused.message(), Path("x.sock"));
  ExpectHolds(refused.message(), "runs as user 64001");
  ExpectHolds(refused.message(), file);
}

TEST_F(DaemonTrustTest, BelievesTheOverflowUserAtANamedSocketOfANamespace) {
  const SocketPlace named{Path("x.sock"), true};
  const SocketPlace searched{Path("x.sock"), false};
  // Nothing but the name of the socket can tell: neither the file nor being called so oneself.
  const std::string file = Write("daemon-user", "65534");
  const auto believes = [&](UserNumbers::Known known, const SocketPlace& place) {
    return CheckDaemonUser(65534, place, file, {.known = known}).ok();
  };
  EXPECT_EQ(testing::StatusOf(testing::StartAs(
                65534,
                [&] {
                  EXPECT_TRUE(believes(UserNumbers::Known::kSome, named));
                  EXPECT_FALSE(believes(UserNumbers::Known::kSome, searched));
                  EXPECT_FALSE(believes(UserNumbers::Known::kCannotTell, named));
                  EXPECT_FALSE(believes(UserNumbers::Known::kCannotTell, searched));
                  EXPECT_TRUE(believes(UserNumbers::Known::kAll, searched));
                  return 0;
                })),
            0);
  const UserNumbers some{.known = UserNumbers::Known::kSome};
  EXPECT_FALSE(CheckDaemonUser(kBob, named, Path("none"), some).ok());
}

/// Listens as a user until this ends.
class Listening {
 public:
  Listening(uid_t user, const std::string& path) {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    process_ = testing::StartAs(user, [&] {
      const Result<FileDescriptor> listener = ListenAt(path, 0666);
      EXPECT_TRUE(listener.ok()) << listener.status().message();
      close(ready[1]);
      for (;;) pause();
      return 0;
    });
    close(ready[1]);
    char none;
    EXPECT_EQ(read(ready[0], &none, 1), 0);
    close(ready[0]);
  }
  ~Listening() {
    kill(process_, SIGKILL);
    testing::StatusOf(process_);
  }
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;

 private:
  pid_t process_;
};

std::string last_line;

TEST_F(DaemonTrustTest, LooksOnWhereADaemonIsNotBelieved) {
  ASSERT_EQ(chmod(folder_.c_str(), 01777), 0);
  const std::vector<SocketPlace> places = {
      {Path("none.sock")}, {Path("bob.sock")}, {Path("me.sock")}};
  const Listening bob(kBob, Path("bob.sock"));
  Result<DaemonConnection> daemon = FindDaemon(places);
  ASSERT_FALSE(daemon.ok());
  EXPECT_EQ(daemon.status().code(), Code::kUnavailable);
  ExpectHolds(daemon.status().message(), "no Harmonaize daemon listens at " + Path("none.sock") +
                                             " (No such file or directory); "
                                             "the daemon at " +
                                             Path("bob.sock") +
                                             " is not believed: it runs as user 64002");
  ExpectHolds(daemon.status().message(), "listens at " + Path("me.sock"));

  const Listening me(0, Path("me.sock"));
  SetLog(LogLevel::kWarning, kLogAll,
         [](LogLevel, LogSubsystem, std::string_view line) { last_line = line; });
  daemon = FindDaemon(places);
  SetLog(LogLevel::kWarning, kLogAll, nullptr);
  ASSERT_TRUE(daemon.ok()) << daemon.status().message();
  EXPECT_EQ(daemon->path, Path("me.sock"));
  ExpectHolds(last_line, "the daemon at " + Path("bob.sock") + " is not believed");
}

TEST_F(DaemonTrustTest, ChecksEachFolderOnTheWay) {
  const auto check = [&](const std::string& path) {
    return CheckSocketFolder(Path(path)).message();
  };
  EXPECT_EQ(check("x.sock"), "");
  EXPECT_EQ(check("missing/x.sock"), "");
  ASSERT_TRUE(fs::create_directories(Path("a/b")));
  EXPECT_EQ(check("a/b/x.sock"), "");
  fs::create_directory_symlink("a", Path("link"));
  ExpectHolds(check("link/b/x.sock"), Path("link") + " is a symbolic link");
  ExpectHolds(check("a/../link/x.sock"), Path("link") + " is a symbolic link");
  Write("file", "");
  ExpectHolds(check("file/x.sock"), Path("file") + " is a file");
  ASSERT_EQ(chmod(Path("a").c_str(), 0777), 0);
  ExpectHolds(check("a/b/x.sock"), "everybody may write to the folder " + Path("a"));
  ASSERT_EQ(chmod(Path("a").c_str(), 0755), 0);
  Give(Path("a"), kBob);
  ExpectHolds(check("a/b/x.sock"), "the folder " + Path("a") + " belongs to user 64002");
  // Those who may make folders elsewhere are trusted with them.
  EXPECT_TRUE(CheckSocketFolder("/var/run/x.sock").ok());
}

TEST_F(DaemonTrustTest, MakesFoldersForOneselfAlone) {
  umask(0);
  ASSERT_TRUE(MakeSocketFolder(Path("a/b/x.sock")).ok());
  for (const char* name : {"a", "a/b"}) {
    struct stat found {};
    ASSERT_EQ(stat(Path(name).c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 07777, 0700u) << name;
  }
  umask(022);
  fs::create_directory_symlink("a", Path("link"));
  EXPECT_FALSE(MakeSocketFolder(Path("link/c/x.sock")).ok());
  EXPECT_FALSE(fs::exists(Path("a/c")));
  // Below a runtime folder, too, wherever that lies.
  char name[] = "/var/tmp/harmonaize-trust-test-XXXXXX";
  const std::string runtime = mkdtemp(name);
  ASSERT_EQ(setenv("XDG_RUNTIME_DIR", (runtime + "/").c_str(), 1), 0);
  EXPECT_TRUE(MakeSocketFolder(runtime + "/harmonaize/x.sock").ok());
  Give(runtime + "/harmonaize", kBob);
  ExpectHolds(MakeSocketFolder(runtime + "/harmonaize/x.sock").message(), "belongs to user 64002");
  unsetenv("XDG_RUNTIME_DIR");
  EXPECT_TRUE(MakeSocketFolder(runtime + "/harmonaize/x.sock").ok());
  fs::remove_all(runtime);
}

TEST_F(DaemonTrustTest, LooksAtTheSystemsSocketFirst) {
  EXPECT_EQ(testing::StatusOf(testing::StartAs(
                kAlice,
                [] {
                  const auto paths = [] {
                    std::string text;
                    for (const SocketPlace& place : ClientSocketPlaces()) {
                      text += place.path + (place.named ? " named\n" : "\n");
                    }
                    return text;
                  };
                  unsetenv("HARMONAIZE_SOCKET");
                  unsetenv("XDG_RUNTIME_DIR");
                  const std::string system = "/run/harmonaize/harmonaized.sock\n";
                  EXPECT_EQ(paths(), system + "/tmp/harmonaize-64001/harmonaized.sock\n");
                  setenv("XDG_RUNTIME_DIR", "relative", 1);
                  EXPECT_EQ(paths(), system + "/tmp/harmonaize-64001/harmonaized.sock\n");
                  setenv("XDG_RUNTIME_DIR", "/run/user/64001", 1);
                  EXPECT_EQ(paths(), system + "/run/user/64001/harmonaize/harmonaized.sock\n");
                  EXPECT_EQ(DefaultSocketPath(), "/run/user/64001/harmonaize/harmonaized.sock");
                  setenv("HARMONAIZE_SOCKET", "/x.sock", 1);
                  EXPECT_EQ(paths(), "/x.sock named\n");
                  return 0;
                })),
            0);
}

}  // namespace
}  // namespace harmonaize

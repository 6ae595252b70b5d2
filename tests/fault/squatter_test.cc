// Users who serve where another user, or everybody, looks for a daemon: real daemons, programs and
// users, on a host of the test's own.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "src/base/user_numbers.h"
#include "src/ipc/control_socket.h"
#include "src/ipc/messages.h"
#include "tests/support/other_users.h"
#include "tests/support/sanitized.h"
#include "tests/support/text_checks.h"

namespace harmonaize::testing {
namespace {

namespace fs = std::filesystem;

using Environment = std::map<std::string, std::string>;

constexpr const char* kDaemon = "/tmp/bin/harmonaized";
constexpr const char* kCommandLine = "/tmp/bin/harmonaize";
constexpr const char* kProbe = "/tmp/bin/setuid_probe";
constexpr const char* kSystemSocket = "/run/harmonaize/harmonaized.sock";
constexpr const char* kAlicesSocket = "/tmp/harmonaize-64001/harmonaized.sock";
constexpr const char* kBobsSocket = "/tmp/harmonaize-64002/harmonaized.sock";

bool Answers(const std::string& path) {
  Result<ControlSocket> socket = ControlSocket::Connect(path);
  return socket.ok() && socket->Send(Encode(StatusRequest::kType, StatusRequest{})).ok() &&
         socket->Receive(10'000).ok();
}

/// A harmonaized that a user runs, from when it answers on.
class DaemonOf {
 public:
  DaemonOf(uid_t user, const std::string& socket, bool named = true) {
    process_ = StartAs(user, [&] {
      // Nothing of this process's environment is to decide where it listens.
      clearenv();
      setenv("STATE_DIRECTORY", ("/tmp/state-" + std::to_string(user)).c_str(), 1);
      execl(kDaemon, kDaemon, "--log-level", "error", named ? "--socket" : nullptr, socket.c_str(),
            nullptr);
      return 127;
    });
    for (int i = 0; i < 3000 && !Answers(socket); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_TRUE(Answers(socket)) << socket;
  }
  ~DaemonOf() {
    kill(process_, SIGTERM);
    EXPECT_EQ(StatusOf(process_), 0);
  }
  DaemonOf(const DaemonOf&) = delete;
  DaemonOf& operator=(const DaemonOf&) = delete;

 private:
  pid_t process_;
};

void MakeFolder(const std::string& folder, uid_t owner, mode_t mode) {
  ASSERT_TRUE(fs::create_directories(folder));
  ASSERT_EQ(chown(folder.c_str(), owner, owner), 0);
  ASSERT_EQ(chmod(folder.c_str(), mode), 0);
}

/// What `harmonaize status` says to a user, for whom status, top, explain and probe are alike.
Ran Status(uid_t user, const Environment& environment = {}) {
  return RunAs(user, {kCommandLine, "status"}, environment);
}

void ExpectServedAt(const std::string& socket, uid_t user, const Environment& environment = {}) {
  const Ran status = Status(user, environment);
  EXPECT_EQ(status.status, 0) << status.text;
  ExpectHolds(status.text, "listening at " + socket);
  // The library of a tenant, which prints no error where it has an id.
  const Ran tenant = RunAs(user, {kProbe}, environment);
  EXPECT_EQ(tenant.text.substr(0, 3), "0: ") << tenant.text;
}

/// Both answer alike.
void ExpectRefused(uid_t user, const Environment& environment,
                   const std::vector<std::string>& reasons) {
  const Ran status = Status(user, environment);
  EXPECT_EQ(status.status, 1) << status.text;
  const Ran tenant = RunAs(user, {kProbe}, environment);
  EXPECT_EQ(tenant.text.substr(0, 3), "2: ") << tenant.text;
  for (const std::string& reason : reasons) {
    ExpectHolds(status.text, reason);
    ExpectHolds(tenant.text, reason);
  }
}

class SquatterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = PrivateHost::WhyNot(); !why.empty()) GTEST_SKIP() << why;
  }
  /// With the programs that the tests run.
  static void OnHost(const std::function<void()>& body) {
    PrivateHost::Run({HARMONAIZED_PROGRAM, HARMONAIZE_PROGRAM, SETUID_PROBE}, body);
  }
};

TEST_F(SquatterTest, InTmpIsPassedOverForTheSystemsDaemon) {
  OnHost([] {
    MakeFolder("/tmp/harmonaize-64001", kBob, 0755);
    const DaemonOf bobs(kBob, kAlicesSocket);
    ExpectRefused(kAlice, {},
                  {"no Harmonaize daemon listens at /run/harmonaize/harmonaized.sock",
                   "no daemon is sought at /tmp/harmonaize-64001/harmonaized.sock: the folder "
                   "/tmp/harmonaize-64001 belongs to user 64002, neither to this user (64001) nor "
                   "to root",
                   "start one with `harmonaized`"});
    const DaemonOf systems(0, kSystemSocket);
    ExpectServedAt(kSystemSocket, kAlice);
  });
}

TEST_F(SquatterTest, AtANamedSocketIsRefusedByName) {
  OnHost([] {
    const DaemonOf systems(0, kSystemSocket);
    const DaemonOf bobs(kBob, "/tmp/squat/x.sock");
    // What Bob's daemon made is Bob's alone.
    ExpectRefused(kAlice, {{"HARMONAIZE_SOCKET", "/tmp/squat/x.sock"}},
                  {"this user may not connect to the Harmonaize daemon at /tmp/squat/x.sock"});
    ASSERT_EQ(chmod("/tmp/squat", 0755), 0);
    // The system's daemon does not come in for one that was named.
    for (const uid_t user : {kAlice, uid_t{0}}) {
      ExpectRefused(user, {{"HARMONAIZE_SOCKET", "/tmp/squat/x.sock"}},
                    {"the daemon at /tmp/squat/x.sock is not believed: it runs as user 64002, "
                     "neither as root, nor as this user (" +
                     std::to_string(user) +
                     "), nor as the one whom /etc/harmonaize/daemon-user names; if it is the "
                     "provider's, root can name its user there"});
    }
    ExpectServedAt("/tmp/squat/x.sock", kBob, {{"HARMONAIZE_SOCKET", "/tmp/squat/x.sock"}});
  });
}

TEST_F(SquatterTest, MakesTheLauncherStartADaemonOfItsOwn) {
  OnHost([] {
    MakeFolder("/tmp/squat", kBob, 0755);
    const DaemonOf bobs(kBob, "/tmp/squat/x.sock");
    const Ran run = RunAs(
        kAlice, {kCommandLine, "run", "--no-preload", "-n", "1", "--", "/tmp/bin/setuid_probe"},
        {{"HARMONAIZE_SOCKET", "/tmp/squat/x.sock"}});
    EXPECT_EQ(run.status, 0) << run.text;
    ExpectHolds(run.text, "the daemon at /tmp/squat/x.sock is not believed");
    ExpectHolds(run.text, "started a private daemon");
    ExpectHolds(run.text, "0: ");
  });
}

TEST_F(SquatterTest, IsNoneWhereRootNamesTheUser) {
  OnHost([] {
    MakeFolder("/run/harmonaize", kBob, 0755);
    const DaemonOf bobs(kBob, kSystemSocket);
    ExpectRefused(kAlice, {},
                  {"the daemon at /run/harmonaize/harmonaized.sock is not believed: it runs as "
                   "user 64002",
                   "no Harmonaize daemon listens at /tmp/harmonaize-64001/harmonaized.sock"});
    MakeFolder("/etc/harmonaize", 0, 0755);
    std::ofstream("/etc/harmonaize/daemon-user") << "64002\n";
    ExpectServedAt(kSystemSocket, kAlice);
    std::ofstream("/etc/passwd", std::ios::app) << "provider:x:64002:64002::/:/bin/false\n";
    std::ofstream("/etc/harmonaize/daemon-user") << "provider\n";
    ExpectServedAt(kSystemSocket, kAlice);
    ASSERT_EQ(chmod("/etc/harmonaize/daemon-user", 0664), 0);
    ExpectRefused(kAlice, {},
                  {"(/etc/harmonaize/daemon-user may be written by others than root (its mode is "
                   "0664))"});
  });
}

TEST_F(SquatterTest, OfOnesOwnNameIsOneself) {
  OnHost([] {
    umask(0);
    const DaemonOf alices(kAlice, kAlicesSocket, /*named=*/false);
    struct stat folder {};
    ASSERT_EQ(stat("/tmp/harmonaize-64001", &folder), 0);
    EXPECT_EQ(folder.st_mode & 07777, 0700u);
    EXPECT_EQ(folder.st_uid, kAlice);
    ExpectServedAt(kAlicesSocket, kAlice);
    // The system's comes first.
    const DaemonOf systems(0, kSystemSocket);
    ASSERT_EQ(stat("/run/harmonaize", &folder), 0);
    EXPECT_EQ(folder.st_mode & 0700, 0700u);
    ExpectServedAt(kSystemSocket, kAlice);
  });
}

TEST_F(SquatterTest, KeepsADaemonFromListeningInTmp) {
  OnHost([] {
    const auto refusal = [] { return RunAs(kAlice, {kDaemon}); };
    MakeFolder("/tmp/harmonaize-64001", kBob, 0777);
    Ran daemon = refusal();
    EXPECT_EQ(daemon.status, 1);
    ExpectHolds(daemon.text, "the folder /tmp/harmonaize-64001 belongs to user 64002");
    fs::remove_all("/tmp/harmonaize-64001");

    MakeFolder("/tmp/lure", kAlice, 0700);
    fs::create_directory_symlink("/tmp/lure", "/tmp/harmonaize-64001");
    daemon = refusal();
    EXPECT_EQ(daemon.status, 1);
    ExpectHolds(daemon.text, "/tmp/harmonaize-64001 is a symbolic link, not a folder");
    EXPECT_TRUE(fs::is_empty("/tmp/lure"));
    fs::remove("/tmp/harmonaize-64001");

    MakeFolder("/tmp/harmonaize-64001", kAlice, 0777);
    daemon = refusal();
    EXPECT_EQ(daemon.status, 1);
    ExpectHolds(daemon.text, "others may enter the folder /tmp/harmonaize-64001");
    ExpectHolds(daemon.text, "chmod 700 /tmp/harmonaize-64001");
    EXPECT_TRUE(fs::is_empty("/tmp/harmonaize-64001"));
  });
}

TEST_F(SquatterTest, WithAnothersRuntimeFolderIsPassedOver) {
  OnHost([] {
    MakeFolder("/run/user/64002", kBob, 0755);
    MakeFolder("/run/user/64002/harmonaize", kBob, 0755);
    const DaemonOf bobs(kBob, "/run/user/64002/harmonaize/harmonaized.sock");
    // As after su.
    ExpectRefused(kAlice, {{"XDG_RUNTIME_DIR", "/run/user/64002/"}},
                  {"the folder /run/user/64002/harmonaize belongs to user 64002"});
  });
}

/// Whether a user may make a user namespace here.
bool NamespacesAllowed() {
  return StatusOf(StartAs(kAlice, [] { return unshare(CLONE_NEWUSER) == 0 ? 0 : 3; })) == 0;
}

TEST_F(SquatterTest, InAUserNamespaceIsToldByTheSocketsName) {
  if (!NamespacesAllowed()) GTEST_SKIP() << "users may not make user namespaces here";
  OnHost([] {
    const DaemonOf systems(0, kSystemSocket);
    const pid_t container = StartAs(kAlice, [] {
      // Without a map: this user, root and Bob all have the overflow user's number.
      if (unshare(CLONE_NEWUSER) != 0) return 2;
      const auto unknown = geteuid();
      ExpectRefused(0, {},
                    {"the daemon at /run/harmonaize/harmonaized.sock is not believed: it runs as a "
                     "user whom this user namespace does not know",
                     fmt::format("/tmp/harmonaize-{}", unknown)});
      ExpectServedAt(kSystemSocket, 0, {{"HARMONAIZE_SOCKET", kSystemSocket}});
      return 0;
    });
    EXPECT_EQ(StatusOf(container), 0);
  });
}

TEST_F(SquatterTest, WithTheOverflowUsersNumberIsAUserLikeOthers) {
  OnHost([] {
    const uid_t overflow = UserNumbers::OfThisProcess().overflow_user;
    MakeFolder("/tmp/squat", overflow, 0755);
    const DaemonOf nobodys(overflow, "/tmp/squat/x.sock");
    ExpectRefused(kAlice, {{"HARMONAIZE_SOCKET", "/tmp/squat/x.sock"}},
                  {"it runs as user " + std::to_string(overflow) + ", neither as root"});
    ExpectServedAt("/tmp/squat/x.sock", overflow, {{"HARMONAIZE_SOCKET", "/tmp/squat/x.sock"}});
  });
}

TEST_F(SquatterTest, DoesNotSteerASetuidProgram) {
  OnHost([] {
    const std::string program = "/tmp/setuid_probe";
    const Environment environment = {{"HARMONAIZE_SOCKET", "/tmp/squat/x.sock"},
                                     {"NCCL_DEBUG", "INFO"},
                                     {"NCCL_DEBUG_FILE", "/tmp/written"}};
    fs::copy_file(kProbe, program);
    Ran probe = RunAs(kBob, {program}, environment);
    ExpectHolds(probe.text, "at /tmp/squat/x.sock");
    EXPECT_TRUE(fs::remove("/tmp/written"));

    ASSERT_EQ(chmod(program.c_str(), 04755), 0);
    probe = RunAs(kBob, {program}, environment);
    ExpectHolds(probe.text, "no Harmonaize daemon listens at /run/harmonaize/harmonaized.sock");
    EXPECT_EQ(probe.text.find("/tmp/squat"), std::string::npos) << probe.text;
    EXPECT_FALSE(fs::exists("/tmp/written"));
  });
}

/// A library that writes /tmp/loaded when something loads it.
const std::string kTrap = "/tmp/trap/libnccl.so.2";

TEST_F(SquatterTest, LoadsNothingIntoASetuidProgram) {
  PrivateHost::Run({HARMONAIZED_PROGRAM, SETUID_PROBE, TRAP_LIBRARY}, [] {
    MakeFolder("/tmp/trap", kBob, 0755);
    fs::copy_file(fs::path("/tmp/bin") / fs::path(TRAP_LIBRARY).filename(), kTrap);
    MakeFolder("/tmp/home", kBob, 0755);
    const std::string settings =
        "HARMONAIZE_FALLBACK=nccl\nHARMONAIZE_NCCL_LIBRARY=" + kTrap + "\n";
    std::ofstream("/tmp/home/.nccl.conf") << settings;
    std::ofstream("/tmp/home/named.conf") << settings;
    std::vector<Environment> ways = {
        {{"HARMONAIZE_FALLBACK", "nccl"}, {"HARMONAIZE_NCCL_LIBRARY", kTrap}},
        {{"HARMONAIZE_FALLBACK", "nccl"}, {"LD_LIBRARY_PATH", "/tmp/trap"}},
        {{"HOME", "/tmp/home"}},
        {{"NCCL_CONF_FILE", "/tmp/home/named.conf"}},
    };
    // A program with a sanitizer refuses to begin with another library preloaded.
    if (!kSanitized) ways.push_back({{"LD_PRELOAD", kTrap}});
    const std::string program = "/tmp/setuid_probe";
    fs::copy_file(kProbe, program);
    for (const Environment& way : ways) {
      SCOPED_TRACE(way.begin()->first + "=" + way.begin()->second);
      ASSERT_EQ(chmod(program.c_str(), 0755), 0);
      RunAs(kBob, {program}, way);
      EXPECT_TRUE(fs::remove("/tmp/loaded")) << "the way is none for a plain program either";
      ASSERT_EQ(chmod(program.c_str(), 04755), 0);
      const Ran probe = RunAs(kBob, {program}, way);
      ExpectHolds(probe.text, "no Harmonaize daemon listens at /run/harmonaize/harmonaized.sock");
      EXPECT_FALSE(fs::exists("/tmp/loaded")) << probe.text;
    }
  });
}

}  // namespace
}  // namespace harmonaize::testing

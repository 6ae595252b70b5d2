// The service: a real daemon that runs as its unit file says, with its user, its rights and its
// system calls and nothing beyond, and what its clients and operators then get from it.

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/ipc/control_socket.h"
#include "src/ipc/messages.h"
#include "tests/support/cluster.h"
#include "tests/support/daemon_process.h"
#include "tests/support/other_users.h"
#include "tests/support/rank_runner.h"
#include "tests/support/reserved_huge_pages.h"
#include "tests/support/text_checks.h"

namespace harmonaize::testing {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAsService = "/tmp/bin/as_service";
constexpr const char* kDaemon = "/tmp/bin/harmonaized";
constexpr const char* kCommandLine = "/tmp/bin/harmonaize";
constexpr const char* kSocket = "/run/harmonaize/harmonaized.sock";
constexpr const char* kState = "/tmp/state";
constexpr const char* kLog = "/tmp/log";
/// The installed files, where users of the private host reach them.
constexpr const char* kUnit = "/tmp/harmonaized.service";

std::string ReadFile(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool Has(const char* program) {
  return RunAs(0, {"/bin/sh", "-c", fmt::format("command -v {}", program)}).status == 0;
}

/// The value of a line "Key:  value" of a file in /proc.
std::string LineOf(const std::string& text, const std::string& key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(key + ":", 0) != 0) continue;
    const size_t value = line.find_first_not_of(" \t", key.size() + 1);
    return value == std::string::npos ? "" : line.substr(value);
  }
  return "no " + key;
}

gid_t GroupNamed(const char* name) {
  const group* const found = getgrnam(name);
  EXPECT_NE(found, nullptr) << name;
  return found == nullptr ? 0 : found->gr_gid;
}

uid_t DaemonsUser() {
  const passwd* const found = getpwnam("harmonaize");
  EXPECT_NE(found, nullptr);
  return found == nullptr ? 0 : found->pw_uid;
}

/// Folders that systemd makes for RuntimeDirectory= and StateDirectory=.
void MakeOwnFolder(const char* path) {
  ASSERT_TRUE(fs::create_directories(path));
  ASSERT_EQ(chown(path, DaemonsUser(), GroupNamed("harmonaize")), 0);
  ASSERT_EQ(chmod(path, 0755), 0);
}

/// The daemon of the service, from when it answers on.
class ServiceDaemon {
 public:
  explicit ServiceDaemon(const std::string& config = "", const char* unit = kUnit) {
    MakeOwnFolder("/run/harmonaize");
    MakeOwnFolder(kState);
    std::ofstream("/etc/harmonaize/provider.toml") << config << "\n[calibration]\nagain = false\n";
    const FileDescriptor log(open(kLog, O_CREAT | O_WRONLY | O_TRUNC | O_APPEND | O_CLOEXEC, 0600));
    process_ = StartAs(0, [&] {
      clearenv();
      setenv("PATH", "/usr/bin:/bin", 1);
      setenv("STATE_DIRECTORY", kState, 1);
      // The leak checker traces the process, which the service may not.
      setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
      dup2(log.get(), STDERR_FILENO);
      execl(kAsService, kAsService, unit, kDaemon, "--config", "/etc/harmonaize/provider.toml",
            static_cast<char*>(nullptr));
      return 127;
    });
    for (int i = 0; !Answers(); ++i) {
      if (i == 6000 || waitpid(process_, nullptr, WNOHANG) != 0) {
        ADD_FAILURE() << "the daemon did not start\n" << Log();
        _exit(1);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  ~ServiceDaemon() {
    kill(process_, SIGTERM);
    EXPECT_EQ(StatusOf(process_), 0) << Log();
  }
  ServiceDaemon(const ServiceDaemon&) = delete;
  ServiceDaemon& operator=(const ServiceDaemon&) = delete;

  void Signal(int signal) const { kill(process_, signal); }
  std::string Log() const { return ReadFile(kLog); }
  /// A file of the daemon's below /proc.
  std::string Proc(const char* name) const {
    return ReadFile(fmt::format("/proc/{}/{}", process_, name));
  }

 private:
  static bool Answers() {
    Result<ControlSocket> socket = ControlSocket::Connect(kSocket);
    return socket.ok() && socket->Send(Encode(StatusRequest::kType, StatusRequest{})).ok() &&
           socket->Receive(20'000).ok();
  }

  pid_t process_ = -1;
};

/// Whether this process has memory on huge pages of a pool.
bool IsOnHugePages() {
  std::istringstream lines(ReadFile("/proc/self/smaps"));
  for (std::string line; std::getline(lines, line);) {
    const bool tells = line.rfind("KernelPageSize:", 0) == 0;
    if (tells && std::stol(line.substr(line.find(':') + 1)) >= 2048) return true;
  }
  return false;
}

/// A job of two processes, with buffers in registered and in ordinary memory; 0 if all went well.
int RunJob(bool huge_pages) {
  const std::vector<int> statuses = RunAsProcesses(2, [&](int rank) {
    ncclComm_t communicator = nullptr;
    EXPECT_NCCL(JoinNamed("job", 2, rank, &communicator));
    const size_t count = size_t{2} << 20;
    void* registered = nullptr;
    EXPECT_NCCL(ncclMemAlloc(&registered, count * sizeof(float)));
    auto* const numbers = static_cast<float*>(registered);
    std::vector<float> heap(count);
    EXPECT_EQ(IsOnHugePages(), huge_pages);
    for (int round = 0; round < 5; ++round) {
      for (float* data : {numbers, heap.data()}) {
        std::fill_n(data, count, static_cast<float>(rank + 1));
        EXPECT_NCCL(ncclAllReduce(data, data, count, ncclFloat, ncclSum, communicator, nullptr));
        EXPECT_EQ(data[0], 3);
        EXPECT_EQ(data[count - 1], 3);
      }
    }
    EXPECT_NCCL(ncclCommDestroy(communicator));
    EXPECT_NCCL(ncclMemFree(registered));
    return 0;
  });
  return statuses == std::vector<int>{0, 0} ? 0 : 1;
}

/// As a user who knows of no socket but those where all clients look.
void ExpectJobRuns(uid_t user, bool huge_pages = false) {
  const pid_t job = StartAs(user, [huge_pages] {
    unsetenv("HARMONAIZE_SOCKET");
    setenv("HARMONAIZE_INLINE", "0", 1);
    setenv("HARMONAIZE_HUGE_PAGES", huge_pages ? "required" : "off", 1);
    return RunJob(huge_pages);
  });
  EXPECT_EQ(StatusOf(job), 0) << "user " << user;
}

class ServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = PrivateHost::WhyNot(); !why.empty()) GTEST_SKIP() << why;
    if (std::string(AS_SERVICE_PROGRAM).empty()) {
      GTEST_SKIP() << "built without libseccomp, which libseccomp-dev brings";
    }
    for (const char* program : {"systemd-analyze", "systemd-sysusers", "systemd-tmpfiles"}) {
      if (!Has(program)) GTEST_SKIP() << "there is no " << program;
    }
  }

  /// On a host on which the service was installed with the commands of the operator guide.
  static void OnHost(const std::function<void()>& body) {
    // Before the host is private: it has a /tmp of its own, and the build may lie below the other.
    std::map<std::string, std::string> files;
    for (const char* file :
         {"harmonaized.service", "sysusers.conf", "tmpfiles.conf", "move-connections.conf"}) {
      files[file] = ReadFile(fs::path(SERVICE_FOLDER) / file);
      ASSERT_FALSE(files[file].empty()) << file;
    }
    PrivateHost::Run({HARMONAIZED_PROGRAM, HARMONAIZE_PROGRAM, AS_SERVICE_PROGRAM}, [&] {
      for (const auto& [file, text] : files) std::ofstream(fs::path("/tmp") / file) << text;
      Command({"systemd-sysusers", "/tmp/sysusers.conf"});
      Command({"systemd-tmpfiles", "--create", "/tmp/tmpfiles.conf"});
      if (!HasFailure()) body();
    });
  }
  static void Command(std::vector<std::string> words) {
    words.insert(words.begin(), "/usr/bin/env");
    const Ran ran = RunAs(0, words);
    EXPECT_EQ(ran.status, 0) << words[1] << ": " << ran.text;
  }
};

TEST_F(ServiceTest, RunsJobsOfOtherUsersWithoutAnyRight) {
  OnHost([] {
    const ServiceDaemon daemon;
    ExpectJobRuns(kAlice);
    ExpectJobRuns(kBob);
    ExpectJobRuns(0);
    const std::string status = daemon.Proc("status");
    const uid_t user = DaemonsUser();
    EXPECT_NE(user, 0u);
    EXPECT_EQ(LineOf(status, "Uid"), fmt::format("{0}\t{0}\t{0}\t{0}", user));
    for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"}) {
      EXPECT_EQ(LineOf(status, set), "0000000000000000") << set;
    }
    EXPECT_EQ(LineOf(status, "NoNewPrivs"), "1");
    EXPECT_EQ(LineOf(status, "Seccomp"), "2");
    ExpectHolds(daemon.Proc("limits"),
                fmt::format("{:<26}{:<21}{:<21}", "Max core file size", 0, 0));
    // Kept from now on.
    EXPECT_TRUE(fs::exists(fs::path(kState) / "calibration.json"));
    EXPECT_EQ(daemon.Log().find("Operation not permitted"), std::string::npos) << daemon.Log();
  });
}

TEST_F(ServiceTest, IsBelievedBecauseRootsFileNamesItsUser) {
  OnHost([] {
    EXPECT_EQ(ReadFile("/etc/harmonaize/daemon-user"), "harmonaize\n");
    const ServiceDaemon daemon;
    EXPECT_EQ(RunAs(kAlice, {kCommandLine, "status"}).status, 0);
    fs::remove("/etc/harmonaize/daemon-user");
    const Ran refused = RunAs(kAlice, {kCommandLine, "status"});
    EXPECT_EQ(refused.status, 1);
    ExpectHolds(refused.text, "is not believed");
    // What the administrator has written stays.
    std::ofstream("/etc/harmonaize/daemon-user") << "somebody-else\n";
    Command({"systemd-tmpfiles", "--create", "/tmp/tmpfiles.conf"});
    EXPECT_EQ(ReadFile("/etc/harmonaize/daemon-user"), "somebody-else\n");
  });
}

TEST_F(ServiceTest, TheOperatorsGroupSeesAllTenants) {
  OnHost([] {
    const ServiceDaemon daemon;
    struct stat found {};
    ASSERT_EQ(stat("/run/harmonaize/operator.sock", &found), 0);
    EXPECT_EQ(found.st_mode & 0777, 0660u);
    EXPECT_EQ(found.st_gid, GroupNamed("harmonaize-operators"));
    const std::vector<std::string> words = {kCommandLine, "status", "--json"};
    const Ran tenant = RunAs(kAlice, words);
    EXPECT_EQ(tenant.status, 0) << tenant.text;
    const Ran operators = RunAs(kAlice, words, {}, {GroupNamed("harmonaize-operators")});
    EXPECT_EQ(operators.status, 0) << operators.text;
    // Of the engine, which is the provider's business.
    EXPECT_EQ(tenant.text.find("\"worker_wakes\""), std::string::npos) << tenant.text;
    ExpectHolds(operators.text, "\"worker_wakes\"");
  });
}

/// As many connections as nobody may have, each with a message that holds a descriptor.
std::vector<ControlSocket> ConnectOften() {
  std::vector<ControlSocket> sockets;
  for (int i = 0; i < 100; ++i) {
    Result<ControlSocket> socket = ControlSocket::Connect(kSocket);
    EXPECT_TRUE(socket.ok());
    if (!socket.ok()) break;
    const int descriptor = STDERR_FILENO;
    EXPECT_TRUE(
        socket->Send(Encode(StatusRequest::kType, StatusRequest{}), std::span(&descriptor, 1))
            .ok());
    sockets.push_back(std::move(*socket));
  }
  return sockets;
}

/// Whether a connection more is told that it is refused.
bool HearsWhy() {
  Result<ControlSocket> socket = ControlSocket::Connect(kSocket);
  if (!socket.ok()) return false;
  const Result<ControlMessage> answer = socket->Receive(20'000);
  return answer.ok() && !DecodeFailure(*DecodeHeader(answer->bytes), answer->bytes).ok();
}

// A process of the daemon's closes what they hold. They hold it when the daemon finds them, since
// it is stopped until then.
TEST_F(ServiceTest, RefusesConnections) {
  OnHost([] {
    const ServiceDaemon daemon("[quota]\nconnections = 8\n");
    int sent[2];
    ASSERT_EQ(pipe2(sent, O_CLOEXEC), 0);
    daemon.Signal(SIGSTOP);
    const pid_t stranger = StartAs(kBob, [&] {
      const std::vector<ControlSocket> sockets = ConnectOften();
      EXPECT_EQ(write(sent[1], "!", 1), 1);
      EXPECT_TRUE(HearsWhy());
      return 0;
    });
    close(sent[1]);
    char byte = 0;
    EXPECT_EQ(read(sent[0], &byte, 1), 1);
    close(sent[0]);
    daemon.Signal(SIGCONT);
    EXPECT_EQ(StatusOf(stranger), 0);
    ExpectJobRuns(kAlice);
    EXPECT_EQ(daemon.Log().find("cannot start a process"), std::string::npos) << daemon.Log();
  });
}

TEST_F(ServiceTest, WorksOnHugePages) {
  const ReservedHugePages pool(16);
  if (!pool.available()) GTEST_SKIP() << "this host has no huge pages to give";
  OnHost([] {
    const ServiceDaemon daemon;
    ExpectJobRuns(kAlice, true);
    EXPECT_EQ(daemon.Log().find("Operation not permitted"), std::string::npos) << daemon.Log();
  });
}

TEST_F(ServiceTest, WorksWithOtherHosts) {
  OnHost([] {
    DaemonProcess::RunBy({kAsService, kUnit}, GroupNamed("harmonaize"));
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
    TestCluster cluster(3, "", "", "", true);
    RunOnHosts(&cluster, {0, 0, 1, 1, 2, 2}, [](int rank, ncclComm_t communicator) {
      std::vector<float> data(size_t{1} << 20);
      for (int round = 0; round < 5; ++round) {
        std::fill(data.begin(), data.end(), static_cast<float>(rank));
        EXPECT_NCCL(ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat, ncclSum,
                                  communicator, nullptr));
        EXPECT_EQ(data.back(), 15);
      }
    });
    for (int host = 0; host < cluster.hosts(); ++host) {
      const std::string log = cluster.daemon(host).Log();
      EXPECT_EQ(log.find("Operation not permitted"), std::string::npos) << log;
    }
    const std::string status = ReadFile(fmt::format("/proc/{}/status", cluster.daemon(0).pid()));
    EXPECT_EQ(LineOf(status, "Seccomp"), "2");
    EXPECT_EQ(LineOf(status, "CapEff"), "0000000000000000");
  });
}

TEST_F(ServiceTest, HasOneRightMoreWithTheDropIn) {
  OnHost([] {
    const char* const unit = "/tmp/with-drop-in.service";
    std::ofstream(unit) << ReadFile(kUnit) << ReadFile("/tmp/move-connections.conf");
    const ServiceDaemon daemon("", unit);
    ExpectJobRuns(kAlice);
    const std::string status = daemon.Proc("status");
    // Bit 12: CAP_NET_ADMIN.
    for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"}) {
      EXPECT_EQ(LineOf(status, set), "0000000000001000") << set;
    }
  });
}

// What the filter is for: without it, or with another list, these would go well.
TEST_F(ServiceTest, AsksTheKernelForNothingElse) {
  OnHost([] {
    const Ran ran = RunAs(0, {kAsService, kUnit, "/bin/sh", "-c",
                              "id -un; unshare -r true; chown 0 /tmp; kill -0 $PPID"});
    ExpectHolds(ran.text, "harmonaize\n");
    ExpectHolds(ran.text, "unshare: unshare failed: Operation not permitted");
    ExpectHolds(ran.text, "changing ownership of '/tmp': Operation not permitted");
  });
}

// ---------------------------------------------------------------------------------------------
// What systemd says of the unit

class ServiceUnitTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!Has("systemd-analyze")) GTEST_SKIP() << "there is no systemd-analyze";
    char name[] = "/tmp/harmonaize-unit-XXXXXX";
    folder_ = mkdtemp(name);
    // Where it is installed to, there may be nothing yet.
    std::istringstream lines(ReadFile(fs::path(SERVICE_FOLDER) / "harmonaized.service"));
    std::ofstream unit(Unit());
    for (std::string line; std::getline(lines, line);) {
      const bool starts = line.rfind("ExecStart=", 0) == 0;
      unit << (starts ? std::string("ExecStart=") + HARMONAIZED_PROGRAM : line) << "\n";
    }
  }
  void TearDown() override {
    if (!folder_.empty()) fs::remove_all(folder_);
  }
  std::string Unit() const { return folder_ + "/harmonaized.service"; }

 private:
  std::string folder_;
};

TEST_F(ServiceUnitTest, IsSound) {
  const Ran ran =
      RunAs(geteuid(), {"/usr/bin/env", "systemd-analyze", "verify", "--man=no", Unit()});
  EXPECT_EQ(ran.status, 0) << ran.text;
  // Unknown keys and values are warnings.
  EXPECT_EQ(ran.text.find("harmonaized.service:"), std::string::npos) << ran.text;
}

// systemd's own measure goes from 0, nothing is exposed, to 10; a service without settings has 9.6.
TEST_F(ServiceUnitTest, ExposesLittle) {
  const Ran ran = RunAs(geteuid(), {"/usr/bin/env", "systemd-analyze", "security", "--no-pager",
                                    "--offline=true", "--threshold=25", Unit()});
  if (ran.text.find("Operation not supported") != std::string::npos) GTEST_SKIP() << ran.text;
  EXPECT_EQ(ran.status, 0) << ran.text;
}

}  // namespace
}  // namespace harmonaize::testing

// The daemon's log: one that nobody takes stops nothing, and tenants cannot fill it. Real daemons,
// whose standard error is a pipe of the test's.

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "src/base/clean_text.h"
#include "src/base/file_descriptor.h"
#include "src/ipc/messages.h"
#include "tests/support/daemon_process.h"
#include "tests/support/hostile_session.h"
#include "tests/support/other_users.h"
#include "tests/support/rank_runner.h"
#include "tests/support/sanitized.h"
#include "tests/support/text_checks.h"

namespace harmonaize::testing {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

/// Longer than anything here takes on a busy machine.
constexpr seconds kPatience(60);

/// A pipe that has room for one page, so that a log fills it soon.
class Pipe {
 public:
  Pipe() {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    reading_ = FileDescriptor(ends[0]);
    writing_ = FileDescriptor(ends[1]);
    EXPECT_GT(fcntl(writing_.get(), F_SETPIPE_SZ, 4096), 0);
  }
  int writing() const { return writing_.get(); }
  /// Leaves the other end to whoever has it.
  void CloseWriting() { writing_.Reset(); }
  /// Takes nothing out: fills what room there is, and says how much that was.
  size_t Fill() {
    fcntl(writing_.get(), F_SETFL, O_NONBLOCK);
    const std::string blanks(4096, ' ');
    size_t filled = 0;
    for (ssize_t put; (put = write(writing_.get(), blanks.data(), blanks.size())) > 0;) {
      filled += static_cast<size_t>(put);
    }
    fcntl(writing_.get(), F_SETFL, 0);
    return filled;
  }
  /// Whether its buffer is full.
  bool IsFull() const {
    pollfd room{writing_.get(), POLLOUT, 0};
    return poll(&room, 1, 0) == 0;
  }
  /// What comes until the last writer is gone.
  std::string ReadAll() {
    std::string text;
    char piece[4096];
    for (ssize_t got; (got = read(reading_.get(), piece, sizeof piece)) > 0;) {
      text.append(piece, static_cast<size_t>(got));
    }
    return text;
  }

 private:
  FileDescriptor reading_;
  FileDescriptor writing_;
};

bool Ends(pid_t process, int* status) {
  const auto deadline = steady_clock::now() + kPatience;
  while (steady_clock::now() < deadline) {
    if (waitpid(process, status, WNOHANG) == process) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

/// Two ranks in processes of their own; whether they all got what they had to.
bool RunsAJob() {
  const std::vector<int> statuses = RunAsProcesses(2, [](int rank) {
    ncclComm_t communicator = nullptr;
    EXPECT_NCCL(JoinNamed("job", 2, rank, &communicator));
    std::vector<float> data(1 << 18, static_cast<float>(rank + 1));
    for (int i = 0; i < 20; ++i) {
      EXPECT_NCCL(ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat, ncclMax,
                                communicator, nullptr));
    }
    EXPECT_EQ(data, std::vector<float>(data.size(), 2));
    EXPECT_NCCL(ncclCommDestroy(communicator));
    return 0;
  });
  return statuses == std::vector<int>{0, 0};
}

/// Joins a communicator of one rank that the log calls so.
uint32_t JoinCalled(HostileSession* session, const std::string& name) {
  JoinRequest join;
  join.id = MakeNamedId(name);
  join.ranks = 1;
  join.rank = 0;
  SetFieldText(join.name, name);
  EXPECT_TRUE(session->Ask(join).ok());
  const uint32_t member = session->LastReply<MemberReply>().member;
  EXPECT_TRUE(session->WaitUntilReady(member));
  return member;
}

class LogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // Whatever these tests are told about logs, the daemon's go where the test says.
    unsetenv("HARMONAIZE_TEST_LOG");
    setenv("HARMONAIZE_INLINE", "0", 1);
  }
  void TearDown() override { unsetenv("HARMONAIZE_INLINE"); }
};

// Each communicator that forms and ends is worth lines, and none of them gets anywhere.
TEST_F(LogTest, ThatNobodyReadsStopsNeitherJobsNorTheEnd) {
  Pipe log;
  DaemonProcess daemon("[log]\nlevel = \"trace\"\ntenant_burst = 1000000\n",
                       DaemonProcess::LogTo{log.writing()});
  log.Fill();
  ASSERT_TRUE(log.IsFull());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(RunsAJob());
  for (int i = 0; i < 3000; ++i) {
    HostileSession session(daemon.socket_path());
    if (i % 100 != 0) continue;
    JoinCalled(&session, "alone");
  }
  EXPECT_TRUE(RunsAJob());
  EXPECT_TRUE(log.IsFull());
  const auto begun = steady_clock::now();
  EXPECT_EQ(daemon.Stop(), 0);
  EXPECT_LT(steady_clock::now() - begun, kPatience);
}

TEST_F(LogTest, ThatIsReadAgainSaysWhatIsMissing) {
  Pipe log;
  DaemonProcess daemon("[log]\nlevel = \"trace\"\ntenant_burst = 1000000\n",
                       DaemonProcess::LogTo{log.writing()});
  const size_t filled = log.Fill();
  for (int i = 0; i < 3000; ++i) HostileSession session(daemon.socket_path());
  std::string text;
  std::thread reader([&] { text = log.ReadAll(); });
  EXPECT_EQ(daemon.Stop(), 0);
  log.CloseWriting();
  reader.join();
  ExpectHolds(text, "lines left out");
  EXPECT_GT(text.size(), filled);
  // Whole lines in their order, the last ones included.
  EXPECT_LT(text.find("session 1:"), text.find("session 2:"));
  EXPECT_LT(text.find("session 2:"), text.find("signal 15: stopping"));
}

// Why a daemon cannot start is its last word, which it does not keep for itself.
TEST_F(LogTest, NamesTheDaemonToWhichTheStateDirectoryBelongs) {
  const DaemonProcess first;
  Pipe log;
  const pid_t second = fork();
  if (second == 0) {
    dup2(log.writing(), STDERR_FILENO);
    setenv("STATE_DIRECTORY", (first.folder() + "/state").c_str(), 1);
    const std::string socket = first.folder() + "/second.sock";
    execl(HARMONAIZED_PROGRAM, "harmonaized", "--socket", socket.c_str(), nullptr);
    _exit(127);
  }
  log.CloseWriting();
  const std::string said = log.ReadAll();
  ExpectHolds(said, "error the state directory " + first.folder() + "/state belongs to another ");
  ExpectHolds(said, "which listens at " + first.socket_path() + "; stop that one first");
  int status = 0;
  ASSERT_TRUE(Ends(second, &status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
}

TEST_F(LogTest, HasTheReasonOfADaemonThatCannotStart) {
  const DaemonProcess first;
  Pipe log;
  const pid_t second = fork();
  if (second == 0) {
    dup2(log.writing(), STDERR_FILENO);
    execl(HARMONAIZED_PROGRAM, "harmonaized", "--socket", first.socket_path().c_str(), nullptr);
    _exit(127);
  }
  log.CloseWriting();
  ExpectHolds(log.ReadAll(), "error a daemon is already running at " + first.socket_path());
  int status = 0;
  ASSERT_TRUE(Ends(second, &status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
}

TEST_F(LogTest, ThatNobodyReadsLetsADaemonEndThatCannotStart) {
  const DaemonProcess first;
  Pipe log;
  log.Fill();
  const pid_t second = fork();
  if (second == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(log.writing(), STDERR_FILENO);
    execl(HARMONAIZED_PROGRAM, "harmonaized", "--socket", first.socket_path().c_str(), nullptr);
    _exit(127);
  }
  int status = 0;
  ASSERT_TRUE(Ends(second, &status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
}

// A tenant's name is nobody's second line, whatever stands in it.
TEST_F(LogTest, HoldsNoLineThatATenantWrote) {
  DaemonProcess daemon("", true);
  {
    HelloRequest hello;
    SetFieldText(hello.program, "a\nb\x1b[31m\xff");
    HostileSession session(daemon.socket_path(), hello);
    JoinCalled(&session, "x\nharmonaized[1] error forged\x07");
    // A tail that makes no sense: the session is cut off, with the program's name in the log.
    session.segment().ring.tail.store(0x7fffffff);
    session.Ring();
    EXPECT_TRUE(session.WaitUntilCutOff());
  }
  EXPECT_EQ(daemon.Stop(), 0);
  const std::string log = daemon.Log();
  ExpectHolds(log, "'x\uFFFDharmonaized[1] error forged\uFFFD' of user");
  ExpectHolds(log, "a\uFFFDb\uFFFD[31m\uFFFD) is cut off");
  EXPECT_EQ(log.find("\nharmonaized[1] error forged"), std::string::npos) << log;
  std::string line;
  for (std::istringstream lines(log); std::getline(lines, line);) {
    EXPECT_EQ(line, CleanText(line, line.size() * 3));
    ExpectHolds(line, " harmonaized[");
  }
}

/// Alice's line is there, and Bob's are counted.
TEST_F(LogTest, IsNotFilledByOneTenant) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be two users";
  DaemonProcess daemon("[log]\ntenant_burst = 20\ntenant_lines_per_second = 5\n", true);
  ASSERT_EQ(chmod(daemon.folder().c_str(), 0755), 0);
  constexpr int kFlood = kSanitized ? 500 : 2000;
  const pid_t flooder = StartAs(kBob, [&] {
    HostileSession session(daemon.socket_path());
    for (int i = 0; i < kFlood; ++i) {
      AbortRequest abort;
      abort.member = JoinCalled(&session, "flood");
      EXPECT_TRUE(session.Ask(abort).ok());
    }
    return 0;
  });
  const pid_t honest = StartAs(kAlice, [&] {
    HostileSession session(daemon.socket_path());
    JoinCalled(&session, "alice's own");
    return 0;
  });
  EXPECT_EQ(StatusOf(honest), 0);
  const auto begun = steady_clock::now();
  EXPECT_EQ(StatusOf(flooder), 0);
  EXPECT_EQ(daemon.Stop(), 0);
  const std::string log = daemon.Log();
  const auto took = std::chrono::duration<double>(steady_clock::now() - begun).count();
  ExpectHolds(log, "'alice`s own' of user");
  ExpectHolds(log, "signal 15: stopping");
  int64_t lines = 0;
  int64_t left_out = 0;
  std::string line;
  const std::string told = fmt::format("tenant uid {}: ", kBob);
  for (std::istringstream all(log); std::getline(all, line);) {
    if (line.find("'flood'") != std::string::npos) ++lines;
    const size_t found = line.find(told);
    if (found != std::string::npos) left_out += std::stoll(line.substr(found + told.size()));
  }
  // Each communicator is worth a line when it forms, and one when it ends, if the daemon sees that.
  EXPECT_GE(lines + left_out, kFlood) << log;
  EXPECT_LE(lines + left_out, 2 * kFlood) << log;
  // A minute more than the test took, as the flood had begun before.
  EXPECT_LE(lines, 20 + static_cast<int64_t>(5 * (took + 60)));
  EXPECT_GE(lines, 20);
}

}  // namespace
}  // namespace harmonaize::testing

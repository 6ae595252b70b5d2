// The ends of a daemon that strangers would hold up, and what it keeps while it starts anew: as two
// users, with real daemons.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/run/private_daemon.h"
#include "src/ipc/control_socket.h"
#include "src/ipc/http_socket.h"
#include "src/ipc/messages.h"
#include "tests/integration/command_line.h"
#include "tests/integration/operator_commands.h"
#include "tests/support/daemon_process.h"
#include "tests/support/free_port.h"
#include "tests/support/lingering_socket.h"
#include "tests/support/stranger.h"
#include "tests/support/text_checks.h"

namespace harmonaize::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

/// Longest time that an end of the daemon may take, however busy the machine. A daemon that waits
/// for a stranger never ends.
constexpr seconds kPatience(60);

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

/// Returns a socket that is bound to a port; none if another socket is. It takes over what a daemon
/// has left, as a stranger's would.
FileDescriptor BoundTo(uint16_t port) {
  FileDescriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const sockaddr_in address = Loopback(port);
  const bool bound =
      bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  if (bound && listen(fd.get(), 16) == 0) return fd;
  return {};
}

/// Returns the status page that a server at the port serves to everybody; "": none answers.
std::string PageAt(uint16_t port) {
  FileDescriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval patience{.tv_sec = 20, .tv_usec = 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  const sockaddr_in address = Loopback(port);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return "";
  const std::string request = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  if (send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) return "";
  std::string answer;
  char bytes[1024];
  ssize_t got = 0;
  while ((got = recv(fd.get(), bytes, sizeof bytes, 0)) > 0) {
    answer.append(bytes, static_cast<size_t>(got));
  }
  return answer;
}

/// Connects to a socket of the daemon's and sends descriptors that linger, `times` times.
void SendToNobody(const std::string& path, int times, std::vector<FileDescriptor>* kept) {
  for (int i = 0; i < times; ++i) {
    Result<ControlSocket> socket = ControlSocket::Connect(path);
    ASSERT_TRUE(socket.ok()) << socket.status().message();
    ASSERT_TRUE(SendLingering(*socket, Encode(StatusRequest::kType, StatusRequest{}), kept));
    kept->push_back(socket->TakeDescriptor());
  }
}

class EndOfADaemon : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root can be two users";
  }
  static void LetEverybodyIn(const DaemonProcess& daemon) {
    ASSERT_EQ(chmod(daemon.folder().c_str(), 0755), 0);
  }
};

TEST_F(EndOfADaemon, WaitsForNothingThatAStrangerHasSent) {
  DaemonProcess daemon;
  LetEverybodyIn(daemon);
  std::vector<FileDescriptor> kept;
  const Stranger stranger([&] { SendToNobody(daemon.socket_path(), 8, &kept); });
  const auto begun = steady_clock::now();
  EXPECT_EQ(daemon.Stop(), 0);
  EXPECT_LT(steady_clock::now() - begun, kPatience);
}

// The daemon finds the signal and the connections at once. It accepts the first of them, of which
// none keeps the stranger's thread.
TEST_F(EndOfADaemon, WaitsForNothingOfConnectionsThatItHasNotAccepted) {
  constexpr int kMoreThanAreAcceptedAtOnce = 100;
  DaemonProcess daemon;
  LetEverybodyIn(daemon);
  ASSERT_EQ(kill(daemon.pid(), SIGSTOP), 0);
  ASSERT_EQ(kill(daemon.pid(), SIGTERM), 0);
  std::vector<FileDescriptor> kept;
  const Stranger stranger([&] {
    for (int i = 0; i < kMoreThanAreAcceptedAtOnce; ++i) {
      Result<ControlSocket> socket = ControlSocket::Connect(daemon.socket_path());
      ASSERT_TRUE(socket.ok()) << socket.status().message();
      kept.push_back(socket->TakeDescriptor());
    }
    SendToNobody(daemon.socket_path(), 20, &kept);
  });
  const auto begun = steady_clock::now();
  ASSERT_EQ(kill(daemon.pid(), SIGCONT), 0);
  EXPECT_EQ(daemon.Stop(), 0);
  EXPECT_LT(steady_clock::now() - begun, kPatience);
}

TEST_F(EndOfADaemon, StartsAnewWhateverAStrangerHasSent) {
  DaemonProcess daemon;
  LetEverybodyIn(daemon);
  std::vector<FileDescriptor> kept;
  const Stranger stranger([&] { SendToNobody(daemon.socket_path(), 8, &kept); });
  const auto begun = steady_clock::now();
  const Ended restarted = RunCommand({"drain", "--wait", "--restart"}, daemon.socket_path());
  EXPECT_EQ(restarted.status, 0) << restarted.error;
  EXPECT_LT(steady_clock::now() - begun, kPatience);
  EXPECT_EQ(kill(daemon.pid(), 0), 0) << "the process has kept its number";
}

// A stranger who tries all the time to have the ports gets neither of them.
TEST(ADaemonThatStartsAnew, KeepsItsPorts) {
  const uint16_t http = FreePort();
  const uint16_t cluster = FreePort();
  const DaemonProcess daemon(
      fmt::format("[cluster]\naddress = \"127.0.0.1:{}\"\nallow_unauthenticated = true\n"
                  "[http]\nlisten = \"127.0.0.1:{}\"\n",
                  cluster, http));
  ExpectHolds(PageAt(http), "200 OK");
  std::atomic<bool> over{false};
  std::atomic<int> taken{0};
  std::vector<std::thread> strangers;
  for (const uint16_t port : {http, cluster}) {
    strangers.emplace_back([&, port] {
      while (!over.load()) taken.fetch_add(BoundTo(port).valid());
    });
  }
  for (int i = 0; i < 2; ++i) {
    const Ended restarted = RunCommand({"drain", "--wait", "--restart"}, daemon.socket_path());
    EXPECT_EQ(restarted.status, 0) << restarted.error;
    ExpectHolds(PageAt(http), "200 OK");
  }
  over.store(true);
  for (std::thread& stranger : strangers) stranger.join();
  EXPECT_EQ(taken.load(), 0);
}

/// Returns the number of children of a process, by /proc; those that have ended and that it has not
/// waited for are among them.
size_t ChildrenOf(pid_t process) {
  std::ifstream file(fmt::format("/proc/{0}/task/{0}/children", process));
  return static_cast<size_t>(
      std::distance(std::istream_iterator<int>(file), std::istream_iterator<int>()));
}

TEST(ADaemonThatStartsAnew, LeavesNoProcessesBehind) {
  const DaemonProcess daemon;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(RunCommand({"drain", "--wait", "--restart"}, daemon.socket_path()).status, 0);
  }
  const auto begun = steady_clock::now();
  while (ChildrenOf(daemon.pid()) > 0 && steady_clock::now() - begun < kPatience) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_EQ(ChildrenOf(daemon.pid()), 0u);
}

TEST(ADaemonThatStartsAnew, GoesOnAsItWasWhereItsFileCannotBeExecuted) {
  Result<TemporaryFolder> folder = TemporaryFolder::Make();
  ASSERT_TRUE(folder.ok()) << folder.status().message();
  const std::string program = folder->path() + "/harmonaized";
  ASSERT_EQ(symlink(HARMONAIZED_PROGRAM, program.c_str()), 0);
  PrivateDaemon::Options options;
  options.program = program;
  options.folder = folder->path();
  options.log_level = "error";
  sigemptyset(&options.signal_mask);
  Result<PrivateDaemon> daemon = PrivateDaemon::Start(options);
  ASSERT_TRUE(daemon.ok()) << daemon.status().message();
  ASSERT_EQ(unlink(program.c_str()), 0);
  std::ofstream(program) << "";
  ASSERT_EQ(chmod(program.c_str(), 0755), 0);
  const Ended restarted = RunCommand({"drain", "--wait", "--restart"}, daemon->socket_path());
  EXPECT_EQ(restarted.status, 0) << restarted.error;
  EXPECT_EQ(RunCommand({"status"}, daemon->socket_path()).status, 0);
  EXPECT_TRUE(daemon->Stop(kPatience).ok());
}

TEST(ADaemonWhosePortIsTaken, ServesWithoutItUntilItIsFree) {
  auto other = std::make_unique<FileDescriptor>(BoundTo(0));
  const uint16_t port = PortOf(*other);
  const DaemonProcess daemon(fmt::format("[http]\nlisten = \"127.0.0.1:{}\"\n", port), true);
  EXPECT_EQ(RunCommand({"status"}, daemon.socket_path()).status, 0);
  EXPECT_TRUE(daemon.WaitForLog("another process has this port"));
  other.reset();
  const auto begun = steady_clock::now();
  std::string page;
  while (page.empty() && steady_clock::now() - begun < kPatience) {
    std::this_thread::sleep_for(milliseconds(50));
    page = PageAt(port);
  }
  ExpectHolds(page, "200 OK");
}

TEST(ADaemonWhosePortIsTaken, ServesRanksOfItsHostWithoutTheClusters) {
  auto other = std::make_unique<FileDescriptor>(BoundTo(0));
  const uint16_t port = PortOf(*other);
  const DaemonProcess daemon(
      fmt::format("[cluster]\naddress = \"127.0.0.1:{}\"\nallow_unauthenticated = true\n", port),
      true);
  EXPECT_TRUE(WithRanks("train", [](ncclComm_t, int) {}));
  EXPECT_TRUE(daemon.WaitForLog("no daemon of another host reaches this one"));
  other.reset();
  EXPECT_TRUE(daemon.WaitForLog("the port is free: other daemons reach this one at 127.0.0.1:"));
}

}  // namespace
}  // namespace harmonaize::testing

// Hosts that die, freeze or are cut off. The other host is a process of its own, in the last test
// in a network namespace of its own.

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "tests/support/transport_node.h"

namespace harmonaize::testing {
namespace {

using transport::NetworkAddress;
using transport::RailOptions;
using transport::TransportOptions;

TransportOptions Quick() {
  TransportOptions options = LoopbackOptions();
  options.dead_after_ns = 600'000'000;
  return options;
}

/// Sends back each message of 1 MiB that it gets, for ever, and lets nobody else in.
[[noreturn]] void Echo(const TransportOptions& options, const std::string& address, int tell) {
  TransportNode node(options, address);
  const std::string bound = node.address.ToString();
  if (write(tell, bound.c_str(), bound.size() + 1) < 0) _exit(2);
  std::vector<std::byte> buffer(size_t{1} << 20);
  SleepUntil(
      {&node}, [&] { return node.peer() != 0; }, 60);
  for (uint64_t operation = 0;; ++operation) {
    const auto receive = node.Receive(node.peer(), operation, buffer);
    SleepUntil(
        {&node}, [&] { return receive->done; }, 60);
    if (!receive->status.ok()) break;
    const auto send = node.Send(node.peer(), operation, std::span(buffer).first(receive->bytes));
    SleepUntil(
        {&node}, [&] { return send->done; }, 60);
    if (!send->status.ok()) break;
  }
  _exit(0);
}

/// Another host, as a process. To be made before a transport of this process: ThreadSanitizer
/// allows no threads in a process that was forked from one with several.
class OtherHost {
 public:
  explicit OtherHost(const TransportOptions& options) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    pid_ = fork();
    if (pid_ == 0) Echo(options, "127.0.0.1:0", ends[1]);
    close(ends[1]);
    char text[64] = {};
    EXPECT_GT(read(ends[0], text, sizeof text - 1), 0);
    close(ends[0]);
    address_ = *NetworkAddress::Parse(text);
  }
  ~OtherHost() {
    Kill(SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  OtherHost(const OtherHost&) = delete;
  OtherHost& operator=(const OtherHost&) = delete;
  void Kill(int signal) { kill(pid_, signal); }
  const NetworkAddress& address() const { return address_; }

 private:
  pid_t pid_ = 0;
  NetworkAddress address_;
};

bool ConnectTo(TransportNode* node, const NetworkAddress& address) {
  const size_t before = node->connected.size();
  node->Connect(address);
  SleepUntil({node}, [&] { return node->connected.size() > before; });
  return node->connected.size() > before && node->connected.back().ok();
}

double SecondsUntilLoss(TransportNode* node, double patience) {
  const uint64_t begin = MonotonicNanoseconds();
  const size_t before = node->losses.size();
  EXPECT_TRUE(SleepUntil(
      {node}, [&] { return node->losses.size() > before; }, patience));
  return static_cast<double>(MonotonicNanoseconds() - begin) / 1e9;
}

TEST(DeadHost, KilledIsNoticedAtOnce) {
  OtherHost other(LoopbackOptions());
  TransportNode node;
  ASSERT_TRUE(ConnectTo(&node, other.address()));
  std::vector<std::byte> buffer(size_t{1} << 20);
  const auto receive = node.Receive(node.peer(), 0, buffer);
  other.Kill(SIGKILL);
  EXPECT_LT(SecondsUntilLoss(&node, 10), 1.0);
  EXPECT_EQ(receive->status.code(), Code::kRemoteError);
  EXPECT_EQ(receive->calls, 1);
}

TEST(DeadHost, FrozenIsNoticedWithinThreeSecondsByDefault) {
  OtherHost other(LoopbackOptions());
  TransportNode node;
  ASSERT_TRUE(ConnectTo(&node, other.address()));
  PumpFor({&node}, 0.1);
  std::vector<std::byte> buffer(size_t{1} << 20);
  const auto receive = node.Receive(node.peer(), 0, buffer);
  other.Kill(SIGSTOP);
  const double seconds = SecondsUntilLoss(&node, 10);
  EXPECT_GT(seconds, 1.0);
  EXPECT_LT(seconds, 3.0);
  EXPECT_EQ(receive->status.code(), Code::kRemoteError);
  EXPECT_NE(node.losses[0].second.find("silent for"), std::string::npos) << node.losses[0].second;
}

TEST(DeadHost, FrozenWithMessagesUnderWayIsNoticed) {
  OtherHost other(Quick());
  TransportNode node(Quick());
  ASSERT_TRUE(ConnectTo(&node, other.address()));
  other.Kill(SIGSTOP);
  std::vector<std::byte> sent(size_t{1} << 20);
  std::vector<std::unique_ptr<Outcome>> outcomes;
  for (uint64_t i = 0; i < 100; ++i) {
    outcomes.push_back(
        node.Send(node.peer(), i, std::span(sent).first(i % 2 == 0 ? 30000 : sent.size())));
  }
  EXPECT_LT(SecondsUntilLoss(&node, 10), 1.5);
  for (const auto& one : outcomes) EXPECT_EQ(one->calls, 1);
}

TEST(DeadHost, ALiveOneIsNotTakenForDead) {
  // Idle for many times the limit; and this daemon itself held up for longer than the limit.
  OtherHost other(Quick());
  TransportOptions patient = LoopbackOptions();
  patient.dead_after_ns = 3'000'000'000;
  OtherHost third(patient);
  TransportNode node(Quick());
  ASSERT_TRUE(ConnectTo(&node, other.address()));
  SleepUntil(
      {&node}, [] { return false; }, 2.0);
  EXPECT_TRUE(node.losses.empty());
  ASSERT_TRUE(ConnectTo(&node, third.address()));
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  const auto to_third = node.peer();
  SleepUntil(
      {&node}, [] { return false; }, 0.3);
  for (const auto& [peer, reason] : node.losses) EXPECT_NE(peer, to_third) << reason;
}

size_t OpenDescriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& one : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

TEST(DeadHost, ManyTimesLeavesNothingBehind) {
  constexpr int kRounds = 25;
  std::vector<std::unique_ptr<OtherHost>> others(kRounds);
  for (auto& other : others) other = std::make_unique<OtherHost>(Quick());
  TransportNode node(Quick());
  std::mt19937 random(17);
  std::vector<std::byte> sent = Pattern(size_t{1} << 20, 1);
  size_t descriptors = 0;
  for (int round = 0; round < kRounds; ++round) {
    {
      OtherHost& other = *others[static_cast<size_t>(round)];
      ASSERT_TRUE(ConnectTo(&node, other.address()));
      // It dies at some moment in an exchange of many messages.
      const uint64_t end = MonotonicNanoseconds() + random() % 20'000'000;
      std::vector<std::unique_ptr<Outcome>> outcomes;
      std::vector<std::vector<std::byte>> buffers(200);
      for (uint64_t i = 0; i < 200; ++i) {
        const size_t bytes = random() % (i % 3 == 0 ? sent.size() : 40000);
        buffers[i].resize(bytes);
        outcomes.push_back(node.Receive(node.peer(), i, buffers[i]));
        outcomes.push_back(node.Send(node.peer(), i, std::span(sent).first(bytes)));
      }
      PumpUntil({&node}, [&] { return MonotonicNanoseconds() > end; });
      other.Kill(SIGKILL);
      ASSERT_TRUE(SleepUntil({&node}, [&] {
        return node.losses.size() == static_cast<size_t>(round) + 1 &&
               std::ranges::all_of(outcomes, [](const auto& one) { return one->done; });
      })) << round;
      for (uint64_t i = 0; i < 200; ++i) {
        EXPECT_EQ(outcomes[2 * i]->calls + outcomes[2 * i + 1]->calls, 2);
        if (!outcomes[2 * i]->status.ok()) continue;
        EXPECT_TRUE(std::equal(buffers[i].begin(), buffers[i].end(), sent.begin()));
      }
    }
    EXPECT_EQ(node->counters().requests_under_way, 0u);
    EXPECT_EQ(node->counters().arrivals_waiting, 0u);
    if (round == 0) descriptors = OpenDescriptors();
    EXPECT_LE(OpenDescriptors(), descriptors);
  }
}

// ---- Two hosts in network namespaces ----

/// Exit codes of the process that plays one host.
enum Verdict : int { kGood = 0, kNoNamespace = 77, kNoLink = 10, kNoExchange, kTooSoon, kTooLate };

bool Shell(const std::string& command) {
  return std::system((command + " 2>/dev/null").c_str()) == 0;
}

TransportOptions InNamespace() {
  TransportOptions options;
  options.key = TestKey();
  return options;  // rails as discovered: the veth
}

/// A device counts as running up to a second after both of its ends are up.
bool WaitForRail(const std::string& address) {
  for (int tries = 0; tries < 300; ++tries) {
    if (!transport::DiscoverRails(*NetworkAddress::Parse(address)).empty()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

[[noreturn]] void HostB(int from_a, int to_a) {
  char go = 0;
  if (unshare(CLONE_NEWNET) != 0 || write(to_a, "u", 1) != 1) _exit(kNoNamespace);
  if (read(from_a, &go, 1) != 1) _exit(kNoNamespace);
  if (!Shell("ip addr add 10.99.0.2/24 dev hzb && ip link set hzb up")) _exit(kNoNamespace);
  if (!WaitForRail("10.99.0.2")) _exit(kNoNamespace);
  Echo(InNamespace(), "10.99.0.2:7000", to_a);
}

Verdict HostA() {
  int to_b[2];
  int from_b[2];
  if (pipe(to_b) != 0 || pipe(from_b) != 0) return kNoNamespace;
  if (unshare(CLONE_NEWNET) != 0) return kNoNamespace;
  const pid_t other = fork();
  if (other == 0) HostB(to_b[0], from_b[1]);
  struct Reaper {
    pid_t pid;
    ~Reaper() {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  } const reaper{other};
  char text[64] = {};
  if (read(from_b[0], text, 1) != 1) return kNoNamespace;
  if (!Shell("ip link add hza type veth peer name hzb netns " + std::to_string(other) +
             " && ip addr add 10.99.0.1/24 dev hza && ip link set hza up") ||
      write(to_b[1], "g", 1) != 1) {
    return kNoNamespace;
  }
  if (read(from_b[0], text, sizeof text - 1) <= 0 || !WaitForRail("10.99.0.1")) {
    return kNoNamespace;
  }
  TransportNode node(InNamespace(), "10.99.0.1:0");
  if (!ConnectTo(&node, *NetworkAddress::Parse("10.99.0.2:7000"))) return kNoLink;
  const std::vector<std::byte> sent = Pattern(size_t{1} << 20, 5);
  std::vector<std::byte> received(sent.size());
  const auto receive = node.Receive(node.peer(), 0, received);
  const auto send = node.Send(node.peer(), 0, sent);
  SleepUntil({&node}, [&] { return receive->done; });
  if (!receive->status.ok() || received != sent) return kNoExchange;
  if (!Shell("ip link set hza down")) return kNoNamespace;
  const uint64_t begin = MonotonicNanoseconds();
  SleepUntil(
      {&node}, [&] { return !node.losses.empty(); }, 10);
  const double seconds = static_cast<double>(MonotonicNanoseconds() - begin) / 1e9;
  if (node.losses.empty() || seconds > 3.0) return kTooLate;
  return seconds < 1.0 ? kTooSoon : kGood;
}

TEST(DeadHost, ACutNetworkIsNoticedWithinThreeSeconds) {
  const pid_t host = fork();
  if (host == 0) _exit(HostA());
  int status = 0;
  waitpid(host, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNoNamespace) {
    GTEST_SKIP() << "this user may not make network namespaces here, or `ip` is missing";
  }
  EXPECT_EQ(WEXITSTATUS(status), kGood);
}

}  // namespace
}  // namespace harmonaize::testing

// Moves messages between two processes over src/transport, over a plain TCP connection and over
// UCX, and prints the ratios. See docs/transport.md.

#include <fmt/format.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "src/base/clock.h"
#include "src/base/json_text.h"
#include "src/transport/transport.h"

namespace harmonaize::perf {
namespace {

using transport::Completion;
using transport::NetworkAddress;
using transport::PeerId;
using transport::PeerInfo;
using transport::RailOptions;
using transport::Transport;
using transport::TransportOptions;

// Messages under way in each direction when bandwidth is measured.
constexpr int kWindow = 4;

struct Settings {
  bool namespaces = false;
  double seconds = 0.5;
  int rounds = 3;
  bool sleep = false;
  std::string json;
  std::vector<size_t> sizes = {64 << 10, 1 << 20, 8 << 20, 64 << 20};
};

/// A way of moving bytes. Both processes have one, and run the same calls.
class Carrier {
 public:
  virtual ~Carrier() = default;
  /// Sends and receives `sends` and `receives` messages of `bytes` each; returns when that is done.
  virtual void Move(size_t bytes, int sends, int receives) = 0;
};

[[noreturn]] void Die(const std::string& why) {
  std::fprintf(stderr, "transport_benchmark: %s\n", why.c_str());
  std::_Exit(1);
}

class TransportCarrier final : public Carrier, public transport::TransportEvents {
 public:
  /// `rail` lacks its address.
  TransportCarrier(RailOptions rail, const NetworkAddress& ours, const NetworkAddress& theirs,
                   bool listens, bool sleep)
      : sleep_(sleep) {
    TransportOptions options;
    options.allow_unauthenticated = true;  // two processes of this program, for some seconds
    rail.address = ours;
    rail.address.set_port(0);
    options.rails = {rail};
    Result<std::unique_ptr<Transport>> made = Transport::Create(options, this);
    if (!made.ok()) Die(made.status().ToString());
    transport_ = std::move(*made);
    NetworkAddress at = ours;
    if (!listens) at.set_port(0);
    const Result<NetworkAddress> bound = transport_->Listen(at);
    if (!bound.ok()) Die(bound.status().ToString());
    if (!listens) Reach(theirs);
    while (peer_ == 0) transport_->Progress();
  }

  void Move(size_t bytes, int sends, int receives) override {
    if (out_.size() < bytes) out_.resize(bytes);
    if (in_.size() < bytes * kWindow) in_.resize(bytes * kWindow);
    left_ = sends + receives;
    int to_send = sends;
    int to_receive = receives;
    sending_ = receiving_ = 0;
    while (left_ > 0) {
      for (; to_receive > 0 && receiving_ < kWindow; --to_receive, ++receiving_) {
        std::byte* place = in_.data() + bytes * (next_receive_ % kWindow);
        Check(transport_->PostReceive(peer_, {next_receive_++, 0, 0}, {place, bytes},
                                      {&OnReceived, this}));
      }
      for (; to_send > 0 && sending_ < kWindow; --to_send, ++sending_) {
        Check(transport_->PostSend(peer_, {0}, {next_send_++, 0, 0}, std::span(out_).first(bytes),
                                   {&OnSent, this}));
      }
      if (transport_->Progress() == 0 && sleep_ && transport_->Arm()) {
        pollfd waiting{transport_->fd(), POLLIN, 0};
        poll(&waiting, 1, 1000);
      }
    }
  }

  void OnPeerUp(PeerId peer, const PeerInfo&) override { peer_ = peer; }
  void OnPeerLost(PeerId, const std::string& reason) override { Die(reason); }
  void OnControl(PeerId, std::span<const std::byte>) override {}

 private:
  static void Check(const Status& status) {
    if (!status.ok()) Die(status.ToString());
  }
  static void OnSent(void* self, const Status& status, size_t) {
    Check(status);
    --static_cast<TransportCarrier*>(self)->sending_;
    --static_cast<TransportCarrier*>(self)->left_;
  }
  static void OnReceived(void* self, const Status& status, size_t) {
    Check(status);
    --static_cast<TransportCarrier*>(self)->receiving_;
    --static_cast<TransportCarrier*>(self)->left_;
  }
  void Reach(const NetworkAddress& theirs) {
    // The other process may not listen yet.
    for (int tries = 0; peer_ == 0 && tries < 200; ++tries) {
      bool answered = false;
      transport_->Connect(theirs, [&answered](const Result<PeerId>&) { answered = true; });
      while (!answered) transport_->Progress();
      if (peer_ == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    if (peer_ == 0) Die("cannot reach " + theirs.ToString());
  }

  bool sleep_;
  PeerId peer_ = 0;
  int left_ = 0;
  int sending_ = 0;
  int receiving_ = 0;
  uint64_t next_send_ = 0;
  uint64_t next_receive_ = 0;
  std::vector<std::byte> out_;
  std::vector<std::byte> in_;
  std::unique_ptr<Transport> transport_;
};

/// The least that a program can do: one connection, one thread for each direction.
class PlainTcp final : public Carrier {
 public:
  PlainTcp(const NetworkAddress& ours, const NetworkAddress& theirs, bool listens, bool sleep)
      : sleep_(sleep) {
    const int family = ours.family();
    const int on = 1;
    socket_ = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listens) {
      setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
      if (bind(socket_, ours.get(), ours.length()) != 0 || listen(socket_, 1) != 0) {
        Die("cannot listen at " + ours.ToString());
      }
      const int accepted = accept(socket_, nullptr, nullptr);
      close(socket_);
      socket_ = accepted;
    } else {
      int tries = 0;
      while (connect(socket_, theirs.get(), theirs.length()) != 0) {
        if (++tries > 200) Die("cannot connect to " + theirs.ToString());
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        close(socket_);
        socket_ = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
      }
    }
    setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  ~PlainTcp() override { close(socket_); }

  void Move(size_t bytes, int sends, int receives) override {
    if (out_.size() < bytes) out_.resize(bytes);
    if (in_.size() < bytes) in_.resize(bytes);
    std::optional<std::thread> sender;
    if (sends > 0 && receives > 0) sender.emplace([&] { SendAll(bytes, sends); });
    if (sends > 0 && receives == 0) SendAll(bytes, sends);
    for (int i = 0; i < receives; ++i) {
      size_t got = 0;
      while (got < bytes) {
        // Polls for small messages, as the others do.
        const bool polls = !sleep_ && bytes <= kPolledBytes;
        const ssize_t more = recv(socket_, in_.data() + got, bytes - got, polls ? MSG_DONTWAIT : 0);
        if (more < 0 && errno == EAGAIN) continue;
        if (more <= 0) Die("the plain connection broke");
        got += static_cast<size_t>(more);
      }
    }
    if (sender) sender->join();
  }

 private:
  void SendAll(size_t bytes, int count) {
    for (int i = 0; i < count; ++i) {
      size_t put = 0;
      while (put < bytes) {
        const ssize_t more = send(socket_, out_.data() + put, bytes - put, MSG_NOSIGNAL);
        if (more <= 0) Die("the plain connection broke");
        put += static_cast<size_t>(more);
      }
    }
  }

  static constexpr size_t kPolledBytes = 4096;

  bool sleep_;
  int socket_ = -1;
  std::vector<std::byte> out_;
  std::vector<std::byte> in_;
};

enum class Pattern { kPingPong, kOneWay, kBothWays };

/// A command that both processes run: the first sends it to the second over a pipe.
struct Command {
  enum class Kind { kOpen, kRun, kEnd } kind = Kind::kEnd;
  int carrier = 0;
  Pattern pattern = Pattern::kPingPong;
  size_t bytes = 0;
  int count = 0;
};

void Run(Carrier* carrier, const Command& command, bool first) {
  if (command.pattern == Pattern::kPingPong) {
    for (int i = 0; i < command.count; ++i) {
      if (first) carrier->Move(command.bytes, 1, 0);
      carrier->Move(command.bytes, 0, 1);
      if (!first) carrier->Move(command.bytes, 1, 0);
    }
    return;
  }
  const bool both = command.pattern == Pattern::kBothWays;
  carrier->Move(command.bytes, first || both ? command.count : 0,
                !first || both ? command.count : 0);
  // The transfer has ended when the other side has all of it.
  carrier->Move(1, first ? 0 : 1, first ? 1 : 0);
}

/// The places of the two processes.
struct Place {
  std::string name;
  std::string device[2];
  std::string host[2];
};

// The last carrier is the first one with a rail of several connections.
constexpr int kCarriers = 4;
constexpr const char* kCarrierNames[kCarriers] = {"transport", "plain TCP", "UCX", "spread"};

std::unique_ptr<Carrier> Open(int carrier, const Place& place, bool first, bool sleep) {
  const auto port = static_cast<uint16_t>(7301 + carrier);
  const size_t we = first ? 0 : 1;
  const NetworkAddress ours = *NetworkAddress::Parse(place.host[we], port);
  const NetworkAddress theirs = *NetworkAddress::Parse(place.host[1 - we], port);
  if (carrier == 1) return std::make_unique<PlainTcp>(ours, theirs, !first, sleep);
  RailOptions rail;
  rail.kind = carrier == 2 ? RailOptions::Kind::kUcx : RailOptions::Kind::kTcp;
  rail.device = place.device[we];
  rail.ucx_transports = "tcp";
  if (carrier == 3) rail.connections = transport::kSpreadConnections;
  return std::make_unique<TransportCarrier>(rail, ours, theirs, !first, sleep);
}

/// Runs the second process.
[[noreturn]] void Follow(int commands, const Place& place, const Settings& settings) {
  std::unique_ptr<Carrier> carrier;
  Command command;
  while (read(commands, &command, sizeof command) == sizeof command) {
    if (command.kind == Command::Kind::kEnd) break;
    if (command.kind == Command::Kind::kOpen) {
      carrier.reset();
      carrier = Open(command.carrier, place, false, settings.sleep);
    } else {
      Run(carrier.get(), command, false);
    }
  }
  std::_Exit(0);
}

/// The first process, which measures.
class Leader {
 public:
  Leader(int commands, const Place& place, const Settings& settings)
      : commands_(commands), place_(place), settings_(settings) {}

  void Open(int carrier) {
    carrier_.reset();
    Tell(Command{Command::Kind::kOpen, carrier, Pattern::kPingPong, 0, 0});
    carrier_ = perf::Open(carrier, place_, true, settings_.sleep);
  }

  /// Returns seconds for one message (kPingPong: one way), the best of the rounds.
  double Measure(Pattern pattern, size_t bytes) {
    const auto timed = [&](int count) {
      const Command command{Command::Kind::kRun, 0, pattern, bytes, count};
      Tell(command);
      const uint64_t begin = MonotonicNanoseconds();
      Run(carrier_.get(), command, true);
      return static_cast<double>(MonotonicNanoseconds() - begin) / 1e9;
    };
    timed(3);
    const double guess = std::max(timed(3) / 3, 1e-6);
    const int count = std::clamp(static_cast<int>(settings_.seconds / guess), 3, 20000);
    double best = 1e9;
    for (int round = 0; round < settings_.rounds; ++round) {
      best = std::min(best, timed(count) / count);
    }
    return pattern == Pattern::kPingPong ? best / 2 : best;
  }

  void End() { Tell(Command{}); }

 private:
  void Tell(const Command& command) {
    if (write(commands_, &command, sizeof command) != sizeof command) Die("the pipe broke");
  }

  int commands_;
  Place place_;
  Settings settings_;
  std::unique_ptr<Carrier> carrier_;
};

bool Shell(const std::string& command) {
  return std::system(command.c_str()) == 0;
}

/// Joins the namespaces of this process and of `other`.
void JoinNamespaces(pid_t other, const Place& place) {
  if (!Shell(fmt::format("ip link add {} type veth peer name {} netns {} && ip addr add {}/24 dev "
                         "{} && ip link set {} up && ip link set lo up",
                         place.device[0], place.device[1], other, place.host[0], place.device[0],
                         place.device[0]))) {
    Die("cannot make a veth pair: is `ip` installed?");
  }
}

/// UCX looks for devices in /sys, which must show the namespace's own.
bool EnterNamespace() {
  return unshare(CLONE_NEWNET | CLONE_NEWNS) == 0 &&
         mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("sysfs", "/sys", "sysfs", 0, nullptr) == 0;
}

pid_t StartFollower(const Place& place, const Settings& settings, int* commands) {
  int down[2];
  int up[2];
  if (pipe(down) != 0 || pipe(up) != 0) Die("cannot make a pipe");
  if (settings.namespaces && !EnterNamespace()) {
    Die("this user may not make network namespaces here; try as root, or without --namespaces");
  }
  const pid_t follower = fork();
  if (follower == 0) {
    close(down[1]);
    char go = 0;
    if (settings.namespaces) {
      if (!EnterNamespace() || write(up[1], "u", 1) != 1 || read(down[0], &go, 1) != 1 ||
          !Shell(fmt::format("ip addr add {}/24 dev {} && ip link set {} up", place.host[1],
                             place.device[1], place.device[1])) ||
          write(up[1], "r", 1) != 1) {
        Die("cannot set up the second namespace");
      }
    }
    Follow(down[0], place, settings);
  }
  char ready = 0;
  if (settings.namespaces) {
    if (read(up[0], &ready, 1) != 1) Die("no second namespace");
    JoinNamespaces(follower, place);
    if (write(down[1], "g", 1) != 1 || read(up[0], &ready, 1) != 1) Die("no second namespace");
    // A device counts as running up to a second after both of its ends are up, which UCX requires.
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  }
  *commands = down[1];
  return follower;
}

struct Row {
  std::string what;
  Pattern pattern;
  size_t bytes;
  double seconds[kCarriers] = {};
};

void Print(const Row& row) {
  std::string line = fmt::format("{:<22}", row.what);
  for (const double seconds : row.seconds) {
    line += row.pattern == Pattern::kPingPong
                ? fmt::format("{:>12.2f} us", seconds * 1e6)
                : fmt::format("{:>10.2f} GB/s", static_cast<double>(row.bytes) / seconds / 1e9);
  }
  for (int i = 1; i < kCarriers; ++i) {
    line += fmt::format("{:>10.2f}", row.seconds[i] / row.seconds[0]);
  }
  std::puts(line.c_str());
  std::fflush(stdout);
}

int Main(const Settings& settings) {
  const Place loopback{"loopback", {"lo", "lo"}, {"127.0.0.1", "127.0.0.1"}};
  const Place veth{"two namespaces, veth", {"hzb0", "hzb1"}, {"10.98.0.1", "10.98.0.2"}};
  const Place& place = settings.namespaces ? veth : loopback;
  int commands = -1;
  const pid_t follower = StartFollower(place, settings, &commands);
  Leader leader(commands, place, settings);
  std::vector<Row> rows = {{"8 B, one way", Pattern::kPingPong, 8, {}}};
  for (const size_t bytes : settings.sizes) {
    const std::string size =
        bytes < (1 << 20) ? fmt::format("{} KiB", bytes >> 10) : fmt::format("{} MiB", bytes >> 20);
    rows.push_back({size + ", one direction", Pattern::kOneWay, bytes, {}});
    rows.push_back({size + ", both", Pattern::kBothWays, bytes, {}});
  }
  for (int carrier = 0; carrier < kCarriers; ++carrier) {
    leader.Open(carrier);
    for (Row& row : rows) row.seconds[carrier] = leader.Measure(row.pattern, row.bytes);
  }
  leader.End();
  waitpid(follower, nullptr, 0);
  std::printf("%s; each direction's bandwidth; ratios above 1: we are faster\n",
              place.name.c_str());
  std::printf("%-22s%15s%15s%15s%15s%10s%10s%10s\n", "", kCarrierNames[0], kCarrierNames[1],
              kCarrierNames[2], kCarrierNames[3], "/ plain", "/ UCX", "/ spread");
  nlohmann::json json = {{"place", place.name}, {"rows", nlohmann::json::array()}};
  for (const Row& row : rows) {
    Print(row);
    nlohmann::json one = {{"what", row.what}, {"bytes", row.bytes}};
    for (int i = 0; i < kCarriers; ++i) one["seconds"][kCarrierNames[i]] = row.seconds[i];
    json["rows"].push_back(one);
  }
  if (settings.json.empty()) return 0;
  std::FILE* file = std::fopen(settings.json.c_str(), "w");
  if (file == nullptr) Die("cannot write " + settings.json);
  std::fputs((JsonText(json, 1) + "\n").c_str(), file);
  std::fclose(file);
  return 0;
}

}  // namespace
}  // namespace harmonaize::perf

int main(int argc, char** argv) {
  harmonaize::perf::Settings settings;
  CLI::App app{
      "Moves messages between two processes: over src/transport, over a plain TCP connection (two "
      "threads for both directions), over src/transport's UCX rails on TCP, and over its rails of "
      "eight TCP connections. Prints one-way times of small messages, each direction's bandwidth "
      "of large ones, and "
      "how many times faster the first is."};
  app.add_flag("--namespaces", settings.namespaces,
               "each process in a network namespace of its own, joined by a veth pair (as root)");
  app.add_flag("--sleep", settings.sleep, "sleep when there is nothing to do, instead of polling");
  app.add_option("--seconds", settings.seconds, "about how long one measurement takes")
      ->check(CLI::Range(0.01, 60.0))
      ->capture_default_str();
  app.add_option("--rounds", settings.rounds, "measurements of each, of which the best counts")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  app.add_option("--sizes", settings.sizes, "bytes of the large messages")->capture_default_str();
  app.add_option("--json", settings.json, "also write the numbers to this file");
  CLI11_PARSE(app, argc, argv);
  return harmonaize::perf::Main(settings);
}

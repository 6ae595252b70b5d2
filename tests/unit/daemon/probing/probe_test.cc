// The parts of a probe of the network that need no cluster.

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <condition_variable>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "daemon/probing/probe_coordinator.h"
#include "daemon/probing/probe_hello.h"
#include "daemon/probing/probe_listener.h"
#include "daemon/probing/probe_nics.h"
#include "daemon/probing/probe_processors.h"
#include "daemon/probing/probe_service.h"
#include "daemon/probing/probe_work.h"
#include "src/topology/fabric/fabric.h"

namespace harmonaize::daemon {
namespace {

using std::chrono::milliseconds;

constexpr ProbeToken kToken = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

/// Values that another thread sets, in order.
template <typename Value>
class Awaited {
 public:
  void Set(Value value) {
    const std::lock_guard lock(mutex_);
    values_.push_back(std::move(value));
    came_.notify_all();
  }
  std::optional<Value> Take() {
    std::unique_lock lock(mutex_);
    if (!came_.wait_for(lock, std::chrono::seconds(20), [this] { return !values_.empty(); })) {
      return std::nullopt;
    }
    Value value = std::move(values_.front());
    values_.erase(values_.begin());
    return value;
  }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::vector<Value> values_;
};

TEST(ProbeAddresses, OneALine) {
  const auto two = ParseProbeAddresses("10.0.0.1\n10.0.0.2:7500\n");
  ASSERT_TRUE(two.ok()) << two.status().message();
  ASSERT_EQ(two->size(), 2u);
  EXPECT_EQ((*two)[0].ToString(), fmt::format("10.0.0.1:{}", kDefaultClusterPort));
  EXPECT_EQ((*two)[1].ToString(), "10.0.0.2:7500");
  const auto none = ParseProbeAddresses("");
  EXPECT_TRUE(none.ok() && none->empty());
  for (const char* wrong : {"10.0.0\n", "somewhere", "10.0.0.1:99999", "10.0.0.1 10.0.0.2"}) {
    const auto parsed = ParseProbeAddresses(wrong);
    EXPECT_EQ(parsed.status().code(), Code::kInvalidArgument) << wrong;
  }
}

TEST(ProbeNames, FitAFabricFile) {
  EXPECT_EQ(FitFabricName("node7.example.org"), "node7");
  EXPECT_EQ(FitFabricName("rack 1 (left)"), "rack-1--left-");
  EXPECT_EQ(FitFabricName(""), "host");
  EXPECT_EQ(FitFabricName("-x"), "host");
  EXPECT_TRUE(IsFabricName(FitFabricName(std::string(100, 'n'))));
  const std::string longest(32, 'n');
  std::vector<std::string> names = {"a", "a", "a-2", "a", longest, longest};
  MakeNamesUnique(&names);
  EXPECT_EQ(names, (std::vector<std::string>{"a", "a-2", "a-2-2", "a-3", longest,
                                             std::string(30, 'n') + "-2"}));
  for (const std::string& name : names) EXPECT_TRUE(IsFabricName(name)) << name;
}

TEST(ProbeHello, NeedsTheToken) {
  const ProbeHello hello{.token = kToken, .set = 77, .transfer = 5};
  auto bytes = EncodeProbeHello(hello);
  const auto decoded = DecodeProbeHello(bytes, kToken);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->set, 77u);
  EXPECT_EQ(decoded->transfer, 5u);
  for (size_t i = 0; i < kToken.size(); ++i) {
    bytes[i] ^= std::byte{1};
    EXPECT_FALSE(DecodeProbeHello(bytes, kToken)) << i;
    bytes[i] ^= std::byte{1};
  }
  EXPECT_FALSE(ProbeTokenFrom({1, 2, 3}));
  EXPECT_EQ(ProbeTokenFrom({kToken.begin(), kToken.end()}), kToken);
}

TEST(ProbeTasks, WhatNoHostShouldDoIsRefused) {
  const ProbeTarget good{
      .nic = 0, .address = "127.0.0.1", .port = 1, .token = {kToken.begin(), kToken.end()}};
  const auto connect = [&](auto change) {
    ProbeTarget target = good;
    change(target);
    return CheckProbeTask(ProbeConnectMessage{.probe = 1, .step = 1, .targets = {target}}, 1);
  };
  EXPECT_TRUE(connect([](ProbeTarget&) {}).ok());
  EXPECT_FALSE(connect([](ProbeTarget& target) { target.nic = 1; }).ok());
  EXPECT_FALSE(connect([](ProbeTarget& target) { target.nic = -1; }).ok());
  EXPECT_FALSE(connect([](ProbeTarget& target) { target.port = 0; }).ok());
  EXPECT_FALSE(connect([](ProbeTarget& target) { target.port = 70000; }).ok());
  EXPECT_FALSE(connect([](ProbeTarget& target) { target.connections = 1 << 20; }).ok());
  EXPECT_FALSE(connect([](ProbeTarget& target) { target.token.pop_back(); }).ok());
  EXPECT_FALSE(CheckProbeTask(ProbeConnectMessage{.step = 0}, 1).ok());
  EXPECT_FALSE(CheckProbeTask(ProbeRoundTripsMessage{.samples = 0}, 1).ok());
  EXPECT_FALSE(CheckProbeTask(ProbeRoundTripsMessage{.samples = 1 << 30}, 1).ok());
  EXPECT_TRUE(CheckProbeTask(ProbeRunMessage{.seconds = 0.1}).ok());
  for (const double wrong : {-1.0, 0.0, 1e9, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_FALSE(CheckProbeTask(ProbeRunMessage{.seconds = wrong}).ok()) << wrong;
  }
  EXPECT_FALSE(CheckProbeTask(ProbeRunMessage{.delay = 60, .seconds = 0.1}).ok());
}

TEST(ProbePlaces, EachMeetsEachInAFewBursts) {
  std::set<std::pair<size_t, int>> met;
  for (int burst = 0; burst < static_cast<int>(kOwnProbePlaces * kOtherProbePlaces); ++burst) {
    const ProbePlaces places = ProbePlacesOf(burst);
    EXPECT_LT(places.own, kOwnProbePlaces);
    EXPECT_LT(places.other, kOtherProbePlaces);
    met.emplace(places.own, places.other);
  }
  EXPECT_EQ(met.size(), kOwnProbePlaces * kOtherProbePlaces);
}

class ProbeListenerTest : public ::testing::Test {
 protected:
  void Open(milliseconds idle_limit) {
    auto opened = ProbeListener::Open(
        {{"lo", "127.0.0.1"}}, kToken, idle_limit,
        {[this](ProbeResultMessage one) { counted_.Set(one); }, [this] { expired_.Set(true); }});
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    listener_ = std::move(*opened);
  }
  FileDescriptor Connect() {
    const StopFlag never(false);
    const auto port = static_cast<uint16_t>(listener_->nics()[0].port);
    Result<FileDescriptor> socket = BeginConnect("127.0.0.1", "127.0.0.1", port);
    EXPECT_TRUE(socket.ok()) << socket.status().message();
    EXPECT_TRUE(FinishConnect(*socket, "here", "there", After(ProbeClock::now(), 5), never).ok());
    return std::move(*socket);
  }
  /// Receives what comes within 5 s; 0 at the end of the stream.
  static ssize_t Receive(const FileDescriptor& socket, void* to, size_t bytes) {
    pollfd readable{socket.get(), POLLIN, 0};
    if (::poll(&readable, 1, 5000) != 1) return -1;
    const ssize_t got = ::recv(socket.get(), to, bytes, 0);
    return got < 0 && errno == ECONNRESET ? 0 : got;
  }

  Awaited<ProbeResultMessage> counted_;
  Awaited<bool> expired_;
  std::unique_ptr<ProbeListener> listener_;
};

TEST_F(ProbeListenerTest, HangsUpOnWhoHasNoToken) {
  Open(milliseconds(60'000));
  const FileDescriptor socket = Connect();
  const auto hello = EncodeProbeHello({.token = {}, .set = 0, .transfer = 0});
  ASSERT_EQ(::send(socket.get(), hello.data(), hello.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(hello.size()));
  char answer = 0;
  EXPECT_EQ(Receive(socket, &answer, 1), 0);
}

TEST_F(ProbeListenerTest, SendsBackAndCounts) {
  Open(milliseconds(60'000));
  ProbeWork work(listener_->nics(), [this](ProbeResultMessage one) { counted_.Set(one); });
  const ProbeTarget target{.nic = 0,
                           .address = "127.0.0.1",
                           .port = listener_->nics()[0].port,
                           .token = {kToken.begin(), kToken.end()},
                           .transfer = 3,
                           .connections = 2};
  ProbeTarget wrong = target;
  wrong.token[0] ^= 1;
  work.MeasureRoundTrips({.probe = 1, .step = 1, .samples = 50, .targets = {target, wrong}});
  const auto trips = counted_.Take();
  ASSERT_TRUE(trips);
  ASSERT_EQ(trips->samples.size(), 2u);
  EXPECT_EQ(trips->samples[0].size(), 50u);
  EXPECT_EQ(trips->samples[1].size(), 0u);

  work.Connect({.probe = 1, .step = 2, .targets = {target}});
  const auto connected = counted_.Take();
  ASSERT_TRUE(connected);
  EXPECT_TRUE(connected->status.ok()) << connected->status.message();
  const ProbeRunMessage run{.probe = 1, .step = 3, .set = 2, .delay = 0.02, .seconds = 0.2};
  listener_->Count(run);
  work.Send(run);
  const auto counts = counted_.Take();
  ASSERT_TRUE(counts);
  EXPECT_EQ(counts->step, 3u);
  ASSERT_EQ(counts->counts.size(), 1u);
  EXPECT_EQ(counts->counts[0].transfer, 3);
  EXPECT_GT(counts->counts[0].bytes, 0u);
}

TEST_F(ProbeListenerTest, ExpiresWhenNothingIsAskedFor) {
  Open(milliseconds(200));
  for (int i = 0; i < 4; ++i) {
    std::this_thread::sleep_for(milliseconds(50));
    listener_->Touch();
  }
  EXPECT_TRUE(expired_.Take().value_or(false));
}

/// Daemons that answer as a test wants.
class ProbeCoordinatorTest : public ::testing::Test {
 protected:
  using Answer = std::function<std::optional<ClusterMessage>(size_t, const ClusterMessage&)>;

  void Lead(Answer answer) {
    answer_ = std::move(answer);
    ProbeCoordinator::Calls calls;
    calls.send = [this](size_t daemon, ClusterMessage message) {
      if (message.As<ProbeEndMessage>() != nullptr) ended_.Set(daemon);
      std::optional<ClusterMessage> said = answer_(daemon, message);
      // The answer comes on another thread, as from the network, and maybe before the coordinator
      // is there.
      if (said) said_.Set({daemon, std::move(*said)});
    };
    calls.progress = [](const std::string&) {};
    calls.done = [this](const Result<std::string>& measured) { done_.Set(measured); };
    coordinator_ = std::make_unique<ProbeCoordinator>(
        1, std::vector<std::string>{"10.0.0.1:7400", "10.0.0.2:7400"}, 0.1, std::move(calls));
    network_ = std::thread([this] {
      while (auto one = said_.Take()) {
        if (one->first == kNobody) return;
        coordinator_->Deliver(one->first, std::move(one->second));
      }
    });
  }
  void TearDown() override {
    said_.Set({kNobody, ProbeEndMessage{}});
    if (network_.joinable()) network_.join();
    coordinator_.reset();
  }
  static ClusterMessage Ready(size_t daemon) {
    return ProbeReadyMessage{.probe = 1,
                             .host = "same",
                             .nics = {{"eth0", fmt::format("10.0.0.{}", daemon + 1), 1000},
                                      {"docker0", "172.17.0.1", 1001}}};
  }
  /// Answers every message as a network does where all is well.
  static std::optional<ClusterMessage> AllIsWell(size_t daemon, const ClusterMessage& message) {
    if (message.As<ProbeOpenMessage>() != nullptr) return Ready(daemon);
    if (const auto* trips = message.As<ProbeRoundTripsMessage>()) {
      ProbeResultMessage result{.probe = 1, .step = trips->step};
      result.samples.resize(trips->targets.size(), std::vector<double>(20, 1e-5));
      return result;
    }
    if (const auto* connect = message.As<ProbeConnectMessage>()) {
      return ProbeResultMessage{.probe = 1, .step = connect->step};
    }
    if (const auto* run = message.As<ProbeRunMessage>()) {
      return ProbeResultMessage{.probe = 1, .step = run->step};
    }
    return std::nullopt;
  }

  static constexpr size_t kNobody = 99;
  Answer answer_;
  Awaited<std::pair<size_t, ClusterMessage>> said_;
  Awaited<size_t> ended_;
  Awaited<Result<std::string>> done_;
  std::unique_ptr<ProbeCoordinator> coordinator_;
  std::thread network_;
};

TEST_F(ProbeCoordinatorTest, ComesToTheEnd) {
  Lead(AllIsWell);
  const auto done = done_.Take();
  ASSERT_TRUE(done && done->ok()) << done->status().message();
  const auto measured = ParseMeasurements(**done, "the document");
  ASSERT_TRUE(measured.ok()) << measured.status().message();
  ASSERT_EQ(measured->hosts.size(), 2u);
  EXPECT_EQ(measured->hosts[1].name, "same-2");
  // An address that all hosts have is no way to any of them.
  ASSERT_EQ(measured->hosts[1].nics.size(), 1u);
  EXPECT_EQ(measured->hosts[1].nics[0].address, "10.0.0.2");
  EXPECT_EQ(measured->round_trips.size(), 5u);  // one pair in five passes
  EXPECT_FALSE(measured->concurrent.empty());
  EXPECT_TRUE(ended_.Take() && ended_.Take()) << "both are told of the end";
}

TEST_F(ProbeCoordinatorTest, NamesWhoRefuses) {
  Lead([](size_t daemon, const ClusterMessage& message) -> std::optional<ClusterMessage> {
    if (message.As<ProbeOpenMessage>() == nullptr) return std::nullopt;
    if (daemon == 0) return Ready(0);
    return ProbeReadyMessage{.probe = 1, .status = InvalidUsage("it is busy")};
  });
  const auto done = done_.Take();
  ASSERT_TRUE(done);
  EXPECT_EQ(done->status().code(), Code::kInvalidUsage);
  EXPECT_EQ(done->status().message(), "the daemon at 10.0.0.2:7400: it is busy");
  EXPECT_TRUE(ended_.Take() && ended_.Take());
}

TEST_F(ProbeCoordinatorTest, NamesWhoIsLost) {
  Lead([](size_t daemon, const ClusterMessage& message) -> std::optional<ClusterMessage> {
    if (message.As<ProbeRunMessage>() != nullptr && daemon == 1) {
      return ProbeEndMessage{1, "was lost"};
    }
    return AllIsWell(daemon, message);
  });
  const auto done = done_.Take();
  ASSERT_TRUE(done);
  EXPECT_EQ(done->status().message(), "same-2 (the daemon at 10.0.0.2:7400) was lost");
}

TEST_F(ProbeCoordinatorTest, WhatMakesNoSenseEndsIt) {
  Lead([](size_t daemon, const ClusterMessage& message) -> std::optional<ClusterMessage> {
    const auto* run = message.As<ProbeRunMessage>();
    if (run == nullptr) return AllIsWell(daemon, message);
    return ProbeResultMessage{.probe = 1, .step = run->step, .counts = {{1 << 20, -5}}};
  });
  const auto done = done_.Take();
  ASSERT_TRUE(done);
  EXPECT_EQ(done->status().code(), Code::kRemoteError);
}

TEST_F(ProbeCoordinatorTest, CanBeCancelled) {
  Lead([](size_t, const ClusterMessage&) { return std::nullopt; });
  const auto start = ProbeClock::now();
  coordinator_->Cancel(RemoteError("enough"));
  const auto done = done_.Take();
  ASSERT_TRUE(done);
  EXPECT_EQ(done->status().message(), "enough");
  EXPECT_LT(ProbeClock::now() - start, std::chrono::seconds(5));
}

}  // namespace
}  // namespace harmonaize::daemon

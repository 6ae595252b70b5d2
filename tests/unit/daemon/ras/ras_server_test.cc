// The RAS server by real sockets, with a bus of events and without an engine.

#include "daemon/ras/ras_server.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "daemon/config/config.h"
#include "daemon/events/event_bus.h"
#include "daemon/runtime/event_loop.h"
#include "tests/support/ras_client.h"

namespace harmonaize::daemon {
namespace {

using harmonaize::testing::RasClient;

std::unique_ptr<EventBus> MakeBus() {
  Result<std::unique_ptr<EventBus>> bus =
      EventBus::Create({.now_seconds = [] { return int64_t{1000}; }});
  EXPECT_TRUE(bus.ok()) << bus.status().message();
  return std::move(*bus);
}

std::unique_ptr<EventLoop> MakeLoop() {
  Result<std::unique_ptr<EventLoop>> loop = EventLoop::Create();
  EXPECT_TRUE(loop.ok()) << loop.status().message();
  return std::move(*loop);
}

class RasServerTest : public ::testing::Test {
 protected:
  void Start(const RasLimits& limits = {}) {
    bus_ = MakeBus();
    loop_ = MakeLoop();
    Config config;
    config.ras.listen = "127.0.0.1:0";
    ResourceLimits all;
    all.fill({1 << 20, 1 << 24});
    all[static_cast<size_t>(Resource::kMemory)] = {1 << 30, 1 << 30};
    accounts_ = std::make_shared<Accounts>(all);
    auto listening = std::make_shared<transport::ListeningSockets>();
    Result<std::unique_ptr<RasServer>> server =
        RasServer::Start(config, std::make_shared<EngineGate>(nullptr), bus_.get(), accounts_,
                         listening, loop_.get(), limits);
    ASSERT_TRUE(server.ok()) << server.status().message();
    server_ = std::move(*server);
    port_ = PortOfLastListener();
  }
  void TearDown() override { server_.reset(); }

  /// Finds the port among this process's sockets, the last one that listens.
  static uint16_t PortOfLastListener() {
    uint16_t port = 0;
    for (int fd = 3; fd < 1024; ++fd) {
      int listens = 0;
      socklen_t length = sizeof listens;
      if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0 || listens == 0) {
        continue;
      }
      const transport::NetworkAddress address = transport::BoundAddress(fd);
      if (address.family() == AF_INET) port = address.port();
    }
    return port;
  }
  /// The identity that this process has at the server.
  static TenantIdentity Self() {
    return {getuid(), getuid(), getuid(), "uid " + std::to_string(getuid())};
  }
  void Publish(EventType type, const std::string& text) {
    static uint64_t unique = 0;
    bus_->Publish(
        Self(),
        {.job = "job", .unique = ++unique, .type = type, .data = "{\"text\":\"" + text + "\"}"});
  }

  std::unique_ptr<EventBus> bus_;
  std::unique_ptr<EventLoop> loop_;
  std::shared_ptr<Accounts> accounts_;
  std::unique_ptr<RasServer> server_;
  uint16_t port_ = 0;
};

TEST_F(RasServerTest, AnswersEachLineInTurn) {
  Start();
  RasClient client(port_);
  ASSERT_TRUE(client.Greet(3, "json"));
  client.Send("timeout x\r\nset format xml\nnonsense\n\nSET FORMAT text\n");
  EXPECT_EQ(client.Line(), "ERROR: Invalid timeout value x\n");
  EXPECT_EQ(client.Line(), "ERROR: Invalid format xml\n");
  EXPECT_EQ(client.Line(), "ERROR: Unknown command nonsense\n");
  EXPECT_EQ(client.Line(), "ERROR: Unknown command \n");
  EXPECT_EQ(client.Line(), "OK\n");
  // A line may come byte by byte, and no greeting is needed.
  RasClient slow(port_);
  for (const char one : std::string("MONITOR weather\n")) slow.Send(std::string(1, one));
  EXPECT_EQ(slow.Line(), "ERROR: Invalid event group weather\n");
}

TEST_F(RasServerTest, SaysThatItHasNoAnswerWithoutAnEngineAndEnds) {
  Start();
  RasClient client(port_);
  ASSERT_TRUE(client.Greet());
  client.Send("STATUS\nSTATUS\nTIMEOUT 4\n");
  EXPECT_EQ(client.Rest(), "ERROR: the daemon has no answer now; ask again\n");
  EXPECT_TRUE(client.ended());
}

TEST_F(RasServerTest, EndsLinesWithoutEndAndHttp) {
  Start();
  RasClient endless(port_);
  endless.Send(std::string(kMostRasLineBytes, 'x'));
  EXPECT_EQ(endless.Rest(), "");
  EXPECT_TRUE(endless.ended());
  RasClient long_line(port_);
  long_line.Send(std::string(kMostRasLineBytes + 10, 'x') + "\n");
  EXPECT_EQ(long_line.Rest(), "");
  EXPECT_TRUE(long_line.ended());
  RasClient browser(port_);
  browser.Send("POST / HTTP/1.1\r\nHost: x\r\n\r\nSTATUS\n");
  EXPECT_EQ(browser.Rest(), "");
  EXPECT_TRUE(browser.ended());
}

TEST_F(RasServerTest, SendsTheSilentAwayAndServesOthersMeanwhile) {
  Start({.line_within = std::chrono::milliseconds(200)});
  RasClient silent(port_);
  RasClient half(port_);
  half.Send("STAT");
  RasClient quick(port_);
  EXPECT_TRUE(quick.Greet());
  EXPECT_EQ(silent.Rest(), "");
  EXPECT_TRUE(silent.ended());
  EXPECT_EQ(half.Rest(), "");
  EXPECT_TRUE(half.ended());
  // Who watches events may be silent.
  RasClient watching(port_);
  watching.Send("MONITOR\n");
  ASSERT_EQ(watching.Line(), "OK\n");
  RasClient later(port_);
  EXPECT_EQ(later.Rest(), "");
  Publish(EventType::kRankLost, "rank 1 died");
  EXPECT_TRUE(watching.Line().ends_with("] PEER_DEAD: rank 1 died\n"));
}

TEST_F(RasServerTest, SendsAwayWhoDoesNotRead) {
  Start({.read_within = std::chrono::milliseconds(200)});
  RasClient client(port_);
  const int small = 4096;
  setsockopt(client.fd(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  client.Send("MONITOR all\n");
  ASSERT_EQ(client.Line(), "OK\n");
  // More than the kernel keeps for it; what it does not take does not fill the daemon's memory.
  const auto account = accounts_->Of(getuid(), "");
  for (int i = 0; i < 1000 && account->held(Resource::kConnections) > 0; ++i) {
    Publish(EventType::kRankLate, std::string(4000, 'x'));
    bus_->Flush(std::chrono::milliseconds(30'000));
    usleep(1000);
  }
  for (int i = 0; i < 3000 && account->held(Resource::kConnections) > 0; ++i) usleep(10'000);
  EXPECT_EQ(account->held(Resource::kConnections), 0);
  EXPECT_LT(client.Rest().size(), size_t{1} << 20);
  EXPECT_TRUE(client.ended());
}

TEST_F(RasServerTest, TellsASlowReaderAllEvents) {
  Start({.waiting_event_bytes = 2000});
  RasClient client(port_);
  client.Send("SET FORMAT text\nMONITOR trace\n");
  ASSERT_EQ(client.Line(), "OK\n");
  ASSERT_EQ(client.Line(), "OK\n");
  constexpr int kEvents = 500;
  for (int i = 0; i < kEvents; ++i) {
    Publish(EventType::kRankLate, "event " + std::to_string(i) + std::string(200, '.'));
  }
  Publish(EventType::kRankLost, "of another group");
  Publish(EventType::kRankLate, "last");
  for (int i = 0; i < kEvents; ++i) {
    ASSERT_NE(client.Line().find("event " + std::to_string(i) + "."), std::string::npos) << i;
  }
  EXPECT_NE(client.Line().find("last"), std::string::npos);
}

TEST_F(RasServerTest, BoundsTheConnectionsOfAUser) {
  Start();
  std::vector<std::unique_ptr<RasClient>> clients;
  for (int i = 0; i < RasServer::kMostOfUser; ++i) {
    clients.push_back(std::make_unique<RasClient>(port_));
    ASSERT_TRUE(clients.back()->Greet());
  }
  RasClient further(port_);
  EXPECT_EQ(further.Rest(),
            "ERROR: this user has 16 connections here, which is as many as it may\n");
  EXPECT_TRUE(further.ended());
  const auto account = accounts_->Of(getuid(), "");
  EXPECT_EQ(account->held(Resource::kConnections), RasServer::kMostOfUser);
  clients.clear();
  for (int i = 0; i < 1000 && account->held(Resource::kConnections) > 0; ++i) usleep(10'000);
  EXPECT_EQ(account->held(Resource::kConnections), 0);
  EXPECT_EQ(account->held(Resource::kMemory), 0);
  RasClient again(port_);
  EXPECT_TRUE(again.Greet());
}

TEST_F(RasServerTest, EndsWithConnectionsOpen) {
  Start();
  std::vector<std::unique_ptr<RasClient>> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(std::make_unique<RasClient>(port_));
    clients.back()->Send("MONITOR all\n");
    ASSERT_EQ(clients.back()->Line(), "OK\n");
  }
  std::thread publisher([this] {
    for (int i = 0; i < 200; ++i) Publish(EventType::kRankLost, "x");
  });
  server_->Close();
  publisher.join();
  for (const auto& client : clients) {
    client->Rest();
    EXPECT_TRUE(client->ended());
  }
}

TEST(RasServer, ListensAtLoopbackAlone) {
  const auto bus = MakeBus();
  const auto loop = MakeLoop();
  Config config;
  config.ras.listen = "0.0.0.0:0";
  EXPECT_FALSE(RasServer::Start(config, std::make_shared<EngineGate>(nullptr), bus.get(),
                                std::make_shared<Accounts>(ResourceLimits{}),
                                std::make_shared<transport::ListeningSockets>(), loop.get())
                   .ok());
}

}  // namespace
}  // namespace harmonaize::daemon

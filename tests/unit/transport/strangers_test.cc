// Whom a daemon lets in. Strangers are plain sockets, and transports without the token.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/transport/tcp/poller.h"
#include "src/transport/tcp/wire.h"
#include "src/transport/ucx/ucx_rail.h"
#include "tests/support/transport_node.h"

namespace harmonaize::testing {
namespace {

using transport::ClusterKey;
using transport::FrameType;
using transport::Greeting;
using transport::Handshake;
using transport::NetworkAddress;
using transport::PeerId;
using transport::RailOptions;
using transport::Transport;
using transport::TransportOptions;

/// A client that keeps to no protocol.
class Stranger {
 public:
  explicit Stranger(const NetworkAddress& address)
      : socket_(socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    EXPECT_EQ(connect(socket_.get(), address.get(), address.length()), 0);
  }

  void Say(std::span<const std::byte> bytes) {
    send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  void Say(const std::string& text) { Say(std::as_bytes(std::span(text))); }

  /// Takes what has come; whether the connection has ended.
  bool Ended() {
    std::byte bytes[4096];
    for (;;) {
      const ssize_t got = recv(socket_.get(), bytes, sizeof bytes, MSG_DONTWAIT);
      if (got == 0 || (got < 0 && errno != EAGAIN)) return true;
      if (got < 0) return false;
      heard_.insert(heard_.end(), bytes, bytes + got);
    }
  }
  const std::vector<std::byte>& heard() const { return heard_; }

  /// Shakes hands as somebody who has the key.
  bool Prove(TransportNode* node, const ClusterKey& key, const Greeting& greeting) {
    Handshake handshake(Handshake::Role::kInitiator, &key, greeting);
    size_t used = 0;
    return PumpUntil({node}, [&] {
      Say(handshake.TakeOutput());
      Ended();
      while (used < heard_.size() && handshake.Wanted() > 0) {
        const size_t bytes = std::min(handshake.Wanted(), heard_.size() - used);
        if (!handshake.Consume(std::span(heard_).subspan(used, bytes)).ok()) return true;
        used += bytes;
      }
      return handshake.done();
    });
  }

 private:
  FileDescriptor socket_;
  std::vector<std::byte> heard_;
};

Greeting StrangersGreeting() {
  Greeting greeting;
  greeting.instance.fill(std::byte{0x42});
  return greeting;
}

TransportOptions WithKey(char filling) {
  TransportOptions options = LoopbackOptions();
  options.key = TestKey(filling);
  return options;
}

TEST(Key, IsNeededUnlessOneSaysOtherwise) {
  TransportOptions options = LoopbackOptions();
  options.key = ClusterKey();
  struct Nobody final : transport::TransportEvents {
    void OnPeerUp(PeerId, const transport::PeerInfo&) override {}
    void OnPeerLost(PeerId, const std::string&) override {}
    void OnControl(PeerId, std::span<const std::byte>) override {}
  } nobody;
  const Status status = Transport::Create(options, &nobody).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("urandom"), std::string::npos);
  options.allow_unauthenticated = true;
  TransportNode a(options);
  TransportNode b(options);
  EXPECT_TRUE(Join(&a, &b));
  options = LoopbackOptions();
  options.rails[0].address = *NetworkAddress::Parse("0.0.0.0");
  EXPECT_EQ(Transport::Create(options, &nobody).status().code(), Code::kInvalidArgument);
}

TEST(Key, OfAnotherClusterOpensNothing) {
  TransportOptions none = LoopbackOptions();
  none.key = ClusterKey();
  none.allow_unauthenticated = true;
  for (const bool with_none : {false, true}) {
    TransportNode a(WithKey('a'));
    TransportNode b(with_none ? none : WithKey('b'));
    a.Connect(b.address);
    b.Connect(a.address);
    ASSERT_TRUE(PumpUntil({&a, &b}, [&] { return !a.connected.empty() && !b.connected.empty(); }));
    for (TransportNode* node : {&a, &b}) {
      EXPECT_EQ(node->connected[0].status().code(), Code::kRemoteError);
      EXPECT_NE(node->connected[0].status().message().find("key"), std::string::npos)
          << node->connected[0].status().message();
      EXPECT_TRUE(node->ups.empty());
      EXPECT_EQ((*node)->counters().connections_refused, 1u);
    }
  }
}

TEST(Strangers, WithGarbageAreSentAway) {
  TransportNode node;
  Stranger web(node.address);
  web.Say("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  ASSERT_TRUE(PumpUntil({&node}, [&] { return web.Ended(); }));
  EXPECT_TRUE(web.heard().empty());

  std::mt19937 random(5);
  for (int round = 0; round < 50; ++round) {
    Stranger noise(node.address);
    // Half of them begin well.
    Greeting greeting = StrangersGreeting();
    std::vector<std::byte> bytes(400);
    std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::byte>(random()); });
    if (round % 2 == 0) noise.Say(transport::EncodeGreeting(greeting));
    noise.Say(bytes);
    ASSERT_TRUE(PumpUntil({&node}, [&] { return noise.Ended(); }));
    EXPECT_LE(noise.heard().size(), transport::kGreetingBytes);
  }
  EXPECT_EQ(node->counters().connections_refused, 51u);
}

TEST(Strangers, WhoSayNothingAreSentAwayInTime) {
  TransportOptions options = LoopbackOptions();
  options.proof_timeout_ns = 200'000'000;
  TransportNode node(options);
  Stranger silent(node.address);
  Stranger half(node.address);
  half.Say(transport::EncodeGreeting(StrangersGreeting()));
  EXPECT_TRUE(SleepUntil(
      {&node}, [&] { return silent.Ended() && half.Ended(); }, 2));
}

// The daemon's own thread has other things to do.
TEST(Strangers, AreNotWaitedFor) {
  TransportOptions options = LoopbackOptions();
  options.proof_timeout_ns = 200'000'000;
  TransportNode node(options);
  Stranger greets(node.address);
  greets.Say(transport::EncodeGreeting(StrangersGreeting()));
  const auto wait = [](const auto& done) {
    for (int i = 0; i < 5000 && !done(); ++i) usleep(1000);
    return done();
  };
  EXPECT_TRUE(wait([&] { return greets.Ended() || !greets.heard().empty(); }));
  EXPECT_EQ(greets.heard().size(), transport::kGreetingBytes);
  EXPECT_TRUE(wait([&] { return greets.Ended(); }));
  EXPECT_EQ(node->counters().connections_refused, 1u);
}

TEST(Strangers, InCrowdsDoNotKeepDaemonsOut) {
  TransportNode a;
  TransportNode b;
  std::vector<std::unique_ptr<Stranger>> crowd;
  for (int i = 0; i < 200; ++i) {
    crowd.push_back(std::make_unique<Stranger>(b.address));
    if (i % 4 == 0) b->Progress();
  }
  EXPECT_TRUE(Join(&a, &b));
  EXPECT_GE(b->counters().connections_evicted, 150u);
}

TEST(Strangers, AtARailsPortAreSentAway) {
  // The rail's port is in the hello, which only who has the key gets to see; one may scan for it.
  TransportOptions options = LoopbackOptions();
  FileDescriptor probe(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in bound{};
  bound.sin_family = AF_INET;
  bound.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof bound;
  ASSERT_EQ(bind(probe.get(), reinterpret_cast<sockaddr*>(&bound), length), 0);
  getsockname(probe.get(), reinterpret_cast<sockaddr*>(&bound), &length);
  probe.Reset();
  options.rails[0].address.set_port(ntohs(bound.sin_port));
  TransportNode node(options);
  Stranger garbage(options.rails[0].address);
  garbage.Say(std::string(500, 'x'));
  EXPECT_TRUE(PumpUntil({&node}, [&] { return garbage.Ended(); }));
  // Even with the key: no link, no rail.
  Stranger insider(options.rails[0].address);
  Greeting greeting = StrangersGreeting();
  greeting.purpose = transport::Purpose::kRail;
  greeting.link = 1;
  EXPECT_TRUE(insider.Prove(&node, TestKey(), greeting));
  EXPECT_TRUE(PumpUntil({&node}, [&] { return insider.Ended(); }));
}

/// What one with the key may say instead of what he should.
std::vector<std::vector<std::byte>> RudeWords() {
  std::vector<std::vector<std::byte>> words;
  const std::vector<std::byte> too_long(transport::kMaxControlBytes + 1);
  AppendFrame(FrameType::kMessage, too_long, &words.emplace_back());
  AppendFrame(FrameType::kMessage, {}, &words.emplace_back());  // before it is up
  AppendFrame(FrameType::kRailsReady, {}, &words.emplace_back());
  AppendFrame(FrameType::kRailsAccepted, {}, &words.emplace_back());
  AppendFrame(static_cast<FrameType>(99), {}, &words.emplace_back());
  AppendFrame(FrameType::kHello, std::as_bytes(std::span("nonsense")), &words.emplace_back());
  transport::Hello hello;
  hello.dead_after_ms = 1;
  AppendFrame(FrameType::kHello, EncodeHello(hello), &words.emplace_back());
  hello.dead_after_ms = 2000;
  std::vector<std::byte>& twice = words.emplace_back();
  AppendFrame(FrameType::kHello, EncodeHello(hello), &twice);
  AppendFrame(FrameType::kHello, EncodeHello(hello), &twice);
  // A hello, and rails that were never connected.
  std::vector<std::byte>& rails = words.emplace_back();
  AppendFrame(FrameType::kHello, EncodeHello(hello), &rails);
  AppendFrame(FrameType::kAdmit, {}, &rails);
  AppendFrame(FrameType::kRailsReady, std::vector<std::byte>(3, std::byte{9}), &rails);
  // A rail that is there, with connections that are not.
  hello.rails = {{transport::RailAnnouncement::Kind::kTcp, 8, "127.0.0.1:9"}};
  for (const int connections : {0, 1, 255}) {
    std::vector<std::byte>& missing = words.emplace_back();
    AppendFrame(FrameType::kHello, EncodeHello(hello), &missing);
    AppendFrame(FrameType::kAdmit, {}, &missing);
    const std::vector<std::byte> ready = {std::byte{0}, std::byte{0},
                                          static_cast<std::byte>(connections)};
    AppendFrame(FrameType::kRailsReady, ready, &missing);
  }
  words.emplace_back(3000, std::byte{0xee});
  return words;
}

TEST(Insiders, WhoBreakTheProtocolLoseTheirLink) {
  TransportNode good;
  TransportNode node;
  ASSERT_TRUE(Join(&good, &node));
  for (const std::vector<std::byte>& words : RudeWords()) {
    Stranger insider(node.address);
    ASSERT_TRUE(insider.Prove(&node, TestKey(), StrangersGreeting()));
    PumpFor({&node, &good}, 0.002);
    size_t said = 0;
    EXPECT_TRUE(PumpUntil({&node, &good}, [&] {
      if (said < words.size()) {
        const size_t bytes = std::min<size_t>(words.size() - said, 32768);
        insider.Say(std::span(words).subspan(said, bytes));
        said += bytes;
      }
      return insider.Ended();
    })) << words.size();
  }
  EXPECT_EQ(node.ups.size(), 1u);
  EXPECT_TRUE(node.losses.empty() && good.losses.empty());
}

template <typename T>
T Take(Result<T> result) {
  EXPECT_TRUE(result.ok()) << result.status().ToString();
  return std::move(*result);
}

TEST(Ucx, MessagesWithoutTheTokenAreDropped) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "UCX is not instrumented for the thread sanitizer";
#endif
  if (!transport::UcxLibrary::Load().ok()) GTEST_SKIP() << "UCX is not installed";
  RailOptions options;
  options.kind = RailOptions::Kind::kUcx;
  options.device = "lo";
  options.ucx_transports = "tcp";
  struct Nobody final : transport::Channel::Owner {
    void OnChannelBroken(transport::Channel*, const std::string&) override {}
  } nobody;
  const auto poller = Take(transport::Poller::Create());
  transport::MessageBoard board;
  transport::MessageBoard strangers_board;
  auto rail = Take(transport::UcxRail::Create(poller.get(), &board, options));
  auto strangers = Take(transport::UcxRail::Create(poller.get(), &strangers_board, options));
  auto back = Take(rail->Connect(&nobody, 1, "a", strangers->address(), 11, 22));
  auto channel = Take(strangers->Connect(&nobody, 1, "b", rail->address(), 22, 12));
  std::vector<std::byte> small(100);
  std::vector<std::byte> large(1 << 20);
  for (auto* bytes : {&small, &large}) {
    channel->Send(strangers_board.NewRequest(true, 1, {1, 0, 0}, bytes->data(), bytes->size(), {}));
  }
  for (int i = 0; i < 200000 && rail->foreign_messages() < 2; ++i) {
    rail->Progress();
    strangers->Progress();
  }
  EXPECT_EQ(rail->foreign_messages(), 2u);
  EXPECT_EQ(board.arrivals_waiting(), 0u);
  for (auto* one : {&channel, &back}) (*one)->Close(Status(Code::kRemoteError, "over"));
  for (int i = 0; i < 100000 && (channel->Lingers() || back->Lingers()); ++i) {
    rail->Progress();
    strangers->Progress();
  }
}

}  // namespace
}  // namespace harmonaize::testing

// How two daemons find each other and whom they let in. Each test has its transports in this
// process, and strangers as plain sockets.

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/transport/poller.h"
#include "src/transport/ucx_rail.h"
#include "src/transport/wire.h"
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

TEST(Links, CarryControlMessagesInOrder) {
  TransportNode a;
  TransportNode b;
  ASSERT_TRUE(Join(&a, &b));
  std::vector<std::string> sent;
  std::mt19937 random(1);
  for (size_t i = 0; i < 200; ++i) {
    sent.push_back(std::string(i % 50 == 7 ? transport::kMaxControlBytes : random() % 3000,
                               static_cast<char>('a' + i % 26)));
  }
  for (const std::string& one : sent) {
    ASSERT_TRUE(a->SendControl(a.peer(), std::as_bytes(std::span(one))).ok());
  }
  ASSERT_TRUE(PumpUntil({&a, &b}, [&] { return b.control.size() == sent.size(); }));
  EXPECT_TRUE(b.control == sent);
  const std::vector<std::byte> too_long(transport::kMaxControlBytes + 1);
  EXPECT_EQ(a->SendControl(a.peer(), too_long).code(), Code::kInvalidArgument);
  EXPECT_EQ(a->SendControl(12345, {}).code(), Code::kRemoteError);
}

TEST(Links, APeerThatDoesNotReadIsGivenUp) {
  TransportNode a;
  TransportNode b;
  ASSERT_TRUE(Join(&a, &b));
  const std::vector<std::byte> message(transport::kMaxControlBytes);
  for (int i = 0; i < 40; ++i) static_cast<void>(a->SendControl(a.peer(), message));
  ASSERT_TRUE(PumpUntil({&a}, [&] { return !a.losses.empty(); }));
  EXPECT_NE(a.losses[0].second.find("does not read"), std::string::npos) << a.losses[0].second;
}

TEST(Links, ThatBothSidesBeginAreOne) {
  std::mt19937 random(3);
  for (int round = 0; round < 40; ++round) {
    TransportNode a;
    TransportNode b;
    a.Connect(b.address);
    for (uint32_t i = random() % 6; i > 0; --i) (random() % 2 == 0 ? a : b)->Progress();
    b.Connect(a.address);
    ASSERT_TRUE(PumpUntil({&a, &b}, [&] { return !a.connected.empty() && !b.connected.empty(); }));
    ASSERT_TRUE(a.connected[0].ok()) << a.connected[0].status().ToString();
    ASSERT_TRUE(b.connected[0].ok()) << b.connected[0].status().ToString();
    PumpFor({&a, &b}, 0.002);
    EXPECT_EQ(a.ups.size(), 1u);
    EXPECT_EQ(b.ups.size(), 1u);
    EXPECT_TRUE(a.losses.empty() && b.losses.empty());
    std::vector<std::byte> received(100);
    const auto receive = b.Receive(b.peer(), 1, received);
    const auto send = a.Send(a.peer(), 1, received);
    EXPECT_TRUE(PumpUntil({&a, &b}, [&] { return send->done && receive->done; }));
  }
}

TEST(Links, AreFoundAgain) {
  TransportNode a;
  TransportNode b;
  ASSERT_TRUE(Join(&a, &b));
  a.Connect(b.address);
  b.Connect(a.address);
  ASSERT_TRUE(PumpUntil({&a, &b}, [&] { return a.connected.size() == 2 && !b.connected.empty(); }));
  EXPECT_EQ(*a.connected[1], *a.connected[0]);
  EXPECT_EQ(*b.connected[0], b.peer());
  EXPECT_EQ(a.ups.size() + b.ups.size(), 2u);
}

TEST(Links, OfManyDaemonsAtOnce) {
  std::vector<std::unique_ptr<TransportNode>> nodes;
  for (int i = 0; i < 6; ++i) nodes.push_back(std::make_unique<TransportNode>());
  for (const auto& from : nodes) {
    for (const auto& to : nodes) {
      if (from != to) from->Connect(to->address);
    }
  }
  ASSERT_TRUE(PumpUntil({nodes[0].get(), nodes[1].get(), nodes[2].get(), nodes[3].get(),
                         nodes[4].get(), nodes[5].get()},
                        [&] {
                          return std::ranges::all_of(
                              nodes, [](const auto& n) { return n->connected.size() == 5; });
                        }));
  for (const auto& node : nodes) {
    EXPECT_EQ(node->ups.size(), 5u);
    for (const auto& one : node->connected) EXPECT_TRUE(one.ok()) << one.status().ToString();
  }
}

TEST(Links, OverIpVersion6) {
  const auto options = [] {
    TransportOptions one = LoopbackOptions();
    one.rails.clear();
    return one;
  };
  TransportNode a(options(), "[::1]:0");
  TransportNode b(options(), "[::1]:0");
  ASSERT_TRUE(Join(&a, &b));
  EXPECT_EQ(a.ups[0].second.address.HostText(), "::1");
}

TEST(Links, GoWithoutARailThatCannotConnect) {
  TransportOptions options = LoopbackOptions();
  options.rails.push_back(options.rails[0]);
  options.rails[1].address = *NetworkAddress::Parse("127.0.0.2");
  TransportNode b(options);
  // It is to connect from a port that is taken.
  options.rails[1].source_port = b.address.port();
  options.rails[1].address = options.rails[0].address;
  TransportNode a(options);
  ASSERT_TRUE(Join(&a, &b));
  ASSERT_EQ(a.ups[0].second.rails, 1u);
  ASSERT_EQ(b.ups[0].second.rails, 1u);
}

TEST(Links, HaveARailForEachPair) {
  TransportOptions options = LoopbackOptions();
  options.rails.push_back(options.rails[0]);
  options.rails[1].address = *NetworkAddress::Parse("127.0.0.2");
  options.rails[1].traffic_class = 0x20;
  TransportNode a(options);
  TransportNode b(options);
  ASSERT_TRUE(Join(&a, &b));
  ASSERT_EQ(a.ups[0].second.rails, 2u);
  EXPECT_NE(a.ups[0].second.rail_names[1].find("127.0.0.2"), std::string::npos);
  for (size_t rail = 0; rail < 2; ++rail) {
    const std::vector<std::byte> sent = Pattern(100000, rail);
    std::vector<std::byte> received(100000);
    const auto receive = b.Receive(b.peer(), rail, received);
    const auto send = a.Send(a.peer(), rail, sent, rail);
    ASSERT_TRUE(PumpUntil({&a, &b}, [&] { return send->done && receive->done; }));
    EXPECT_TRUE(sent == received);
  }
}

TEST(Links, HaveSeveralConnectionsForARail) {
  TransportOptions options = LoopbackOptions();
  options.rails.push_back(options.rails[0]);
  options.rails[0].connections = 8;
  options.rails[1].connections = 3;
  // They come one after the other for each rail: no more strangers at once than rails.
  options.unproved_limit_per_address = 3;
  TransportNode a(options);
  TransportNode b(options);
  ASSERT_TRUE(Join(&a, &b));
  EXPECT_EQ(b->counters().connections_accepted, 1u + 8u + 3u);
  EXPECT_EQ(b->counters().connections_evicted, 0u);
  for (const TransportNode* node : {&a, &b}) {
    const std::vector<std::string>& names = node->ups[0].second.rail_names;
    ASSERT_EQ(names.size(), 2u);
    EXPECT_NE(names[0].find("8 connections"), std::string::npos) << names[0];
    EXPECT_NE(names[1].find("3 connections"), std::string::npos) << names[1];
  }
}

TEST(Links, TheSideThatConnectsSaysHowManyConnections) {
  TransportOptions several = LoopbackOptions();
  several.rails[0].connections = 4;
  TransportNode one;
  TransportNode four(several);
  ASSERT_TRUE(Join(&four, &one));
  EXPECT_EQ(one->counters().connections_accepted, 5u);
  const auto receive_at = [](TransportNode* to, TransportNode* from) {
    const std::vector<std::byte> sent = Pattern(500000, 1);
    std::vector<std::byte> received(sent.size());
    const auto receive = to->Receive(to->peer(), 1, received);
    const auto send = from->Send(from->peer(), 1, sent);
    EXPECT_TRUE(PumpUntil({to, from}, [&] { return send->done && receive->done; }));
    EXPECT_TRUE(sent == received);
  };
  receive_at(&one, &four);
  receive_at(&four, &one);
}

TEST(Links, ThatAskForTooManyConnectionsAreRefusedAtOnce) {
  const auto refusal = [](const TransportOptions& options) {
    TransportNode nobody;
    return Transport::Create(options, &nobody).status();
  };
  TransportOptions options = LoopbackOptions();
  options.rails[0].connections = 0;
  EXPECT_EQ(refusal(options).code(), Code::kInvalidArgument);
  options.rails[0].connections = 2;
  options.rails[0].source_port = 4000;
  EXPECT_NE(refusal(options).message().find("from one port"), std::string::npos);
  options.rails[0].source_port = 0;
  options.rails[0].connections = 33;
  options.rails.push_back(options.rails[0]);
  EXPECT_NE(refusal(options).message().find("66"), std::string::npos);
}

/// While it lives this process can open so many descriptors more.
class FewDescriptors {
 public:
  explicit FewDescriptors(int more) {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    rlimit few = before_;
    for (few.rlim_cur = 0; more >= 0; ++few.rlim_cur) {
      if (fcntl(static_cast<int>(few.rlim_cur), F_GETFD) < 0) --more;
    }
    --few.rlim_cur;
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  }
  ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

// Of eight connections there is room for three, or for three and one side of the fourth.
TEST(Links, GoOnWithTheConnectionsThatCame) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer itself needs descriptors, to look whether memory can be read";
#endif
  for (const int more : {8, 9}) {
    TransportOptions options = LoopbackOptions();
    options.rails[0].connections = 8;
    options.proof_timeout_ns = 300'000'000;
    TransportNode a(options);
    TransportNode b(options);
    {
      const FewDescriptors few(more);
      ASSERT_TRUE(Join(&a, &b)) << more;
    }
    for (const TransportNode* node : {&a, &b}) {
      const std::string& name = node->ups[0].second.rail_names[0];
      EXPECT_NE(name.find("3 connections"), std::string::npos) << more << ": " << name;
    }
    const std::vector<std::byte> sent = Pattern(500000, 1);
    std::vector<std::byte> received(sent.size());
    const auto receive = b.Receive(b.peer(), 1, received);
    const auto send = a.Send(a.peer(), 1, sent);
    EXPECT_TRUE(PumpUntil({&a, &b}, [&] { return send->done && receive->done; }));
    EXPECT_TRUE(sent == received);
  }
}

TEST(Links, AreLostWithAnyConnectionOfARail) {
  TransportOptions options = LoopbackOptions();
  options.rails[0].connections = 8;
  TransportNode a(options);
  TransportNode b(options);
  const FileDescriptor next(dup(STDERR_FILENO));
  ASSERT_TRUE(Join(&a, &b));
  std::vector<std::byte> buffer(500000);
  const auto receive = b.Receive(b.peer(), 1, buffer);
  // The last ones that were opened are of the rail's last connection.
  int last = next.get();
  for (int fd = last; fd < last + 64; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) last = fd;
  }
  ASSERT_EQ(shutdown(last, SHUT_RDWR), 0);
  ASSERT_TRUE(PumpUntil({&a, &b}, [&] { return !a.losses.empty() && !b.losses.empty(); }));
  EXPECT_TRUE(receive->done);
  EXPECT_EQ(receive->status.code(), Code::kRemoteError);
  // One of the two has seen it, and says which rail it was.
  EXPECT_NE((a.losses[0].second + b.losses[0].second).find("rail lo"), std::string::npos)
      << a.losses[0].second << "; " << b.losses[0].second;
}

// A daemon that has slept has not heard its peers, who were there: the first time, too, when
// nothing tells yet how often it should have looked.
TEST(Links, AreNotLostByADaemonThatSlept) {
  TransportOptions options = LoopbackOptions();
  options.dead_after_ns = 400'000'000;
  TransportNode a(options);
  TransportNode b(options);
  ASSERT_TRUE(Join(&a, &b));
  for (int times = 0; times < 2; ++times) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    PumpFor({&a, &b}, 0.6);
  }
  EXPECT_TRUE(a.losses.empty()) << a.losses.front().second;
  EXPECT_TRUE(b.losses.empty()) << b.losses.front().second;
}

TEST(Links, AreEndedWithAReason) {
  TransportNode a;
  TransportNode b;
  ASSERT_TRUE(Join(&a, &b));
  const PeerId old = b.peer();
  a->Disconnect(a.peer(), "maintenance");
  ASSERT_TRUE(PumpUntil({&a, &b}, [&] { return !a.losses.empty() && !b.losses.empty(); }));
  EXPECT_NE(a.losses[0].second.find("this daemon ended the link: maintenance"), std::string::npos);
  EXPECT_NE(b.losses[0].second.find("maintenance"), std::string::npos) << b.losses[0].second;
  a.Connect(b.address);
  ASSERT_TRUE(PumpUntil({&a, &b}, [&] { return a.connected.size() == 2 && b.ups.size() == 2; }));
  EXPECT_NE(b.peer(), old);
}

TEST(Links, ADaemonThatCameBackIsAnother) {
  TransportNode a;
  std::optional<TransportNode> b(std::in_place);
  ASSERT_TRUE(Join(&a, &*b));
  const std::string address = b->address.ToString();
  b.emplace(LoopbackOptions(), address);
  a.Connect(b->address);
  ASSERT_TRUE(PumpUntil({&a, &*b}, [&] { return a.connected.size() == 2; }));
  ASSERT_TRUE(a.connected[1].ok()) << a.connected[1].status().ToString();
  EXPECT_NE(a.ups[0].second.instance, a.ups[1].second.instance);
  EXPECT_EQ(a.losses.size(), 1u);
}

TEST(Connect, SaysWhyItFailed) {
  TransportOptions options = LoopbackOptions();
  options.connect_timeout_ns = 300'000'000;
  TransportNode a(options);
  // Nobody listens at the discard port.
  a.Connect(*NetworkAddress::Parse("127.0.0.1:9"));
  EXPECT_TRUE(a.connected.empty()) << "nothing calls back but Progress";
  EXPECT_FALSE(a->Arm() && a.connected.size() == 1);
  ASSERT_TRUE(PumpUntil({&a}, [&] { return a.connected.size() == 1; }));
  EXPECT_EQ(a.connected[0].status().code(), Code::kUnavailable);
  EXPECT_NE(a.connected[0].status().message().find("127.0.0.1:9"), std::string::npos);

  a.Connect(a.address);
  ASSERT_TRUE(PumpUntil({&a}, [&] { return a.connected.size() == 2; }));
  EXPECT_NE(a.connected[1].status().message().find("this daemon itself"), std::string::npos);

  // One that accepts and is silent.
  FileDescriptor silent(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in bound{};
  bound.sin_family = AF_INET;
  bound.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof bound;
  ASSERT_EQ(bind(silent.get(), reinterpret_cast<sockaddr*>(&bound), length), 0);
  ASSERT_EQ(listen(silent.get(), 5), 0);
  getsockname(silent.get(), reinterpret_cast<sockaddr*>(&bound), &length);
  a.Connect(NetworkAddress::From(reinterpret_cast<sockaddr*>(&bound)));
  ASSERT_TRUE(SleepUntil(
      {&a}, [&] { return a.connected.size() == 3; }, 3));
  EXPECT_EQ(a.connected[2].status().code(), Code::kUnavailable);
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

TEST(IdleTransport, IsNotWoken) {
  TransportNode a;
  {
    TransportNode b;
    ASSERT_TRUE(Join(&a, &b));
  }
  ASSERT_TRUE(PumpUntil({&a}, [&] { return !a.losses.empty(); }));
  PumpFor({&a}, 0.3);
  ASSERT_TRUE(a->Arm());
  pollfd waiting{a->fd(), POLLIN, 0};
  EXPECT_EQ(poll(&waiting, 1, 700), 0);
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

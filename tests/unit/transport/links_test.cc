// How two daemons find each other and stay linked. Each test has its transports in this process.

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "src/base/file_descriptor.h"
#include "tests/support/transport_node.h"

namespace harmonaize::testing {
namespace {

using transport::NetworkAddress;
using transport::PeerId;
using transport::Transport;
using transport::TransportOptions;

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

// Both what a rail carries and what the daemons say counts.
TEST(Links, ThatCarryBytesTellSinceWhenNothingCame) {
  TransportNode a;
  TransportNode b;
  ASSERT_TRUE(Join(&a, &b));
  const uint64_t joined = a->HeardNs(a.peer());
  EXPECT_GT(joined, 0u);
  EXPECT_LE(joined, MonotonicNanoseconds());
  EXPECT_EQ(a->HeardNs(12345), 0u);
  const auto hears = [&](TransportNode* node, uint64_t before_ns) {
    return PumpUntil({&a, &b}, [&] { return (*node)->HeardNs(node->peer()) > before_ns; });
  };
  ASSERT_TRUE(b->SendControl(b.peer(), std::as_bytes(std::span("word"))).ok());
  EXPECT_TRUE(hears(&a, joined));

  // Data alone: the sender's side hears no more than heartbeats.
  const uint64_t before = a->HeardNs(a.peer());
  std::vector<std::byte> received(100);
  const auto receive = a.Receive(a.peer(), 1, received);
  const auto send = b.Send(b.peer(), 1, received);
  EXPECT_TRUE(hears(&a, before));
  EXPECT_TRUE(PumpUntil({&a, &b}, [&] { return send->done && receive->done; }));

  // A peer that does nothing is not heard.
  PumpFor({&a, &b}, 0.01);
  const uint64_t last = a->HeardNs(a.peer());
  PumpFor({&a}, 0.1);
  EXPECT_EQ(a->HeardNs(a.peer()), last);
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
  // The last sockets that were opened are of the rail's last connection.
  int last = next.get();
  for (int fd = last; fd < last + 64; ++fd) {
    struct stat status {};
    if (fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode)) last = fd;
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

}  // namespace
}  // namespace harmonaize::testing

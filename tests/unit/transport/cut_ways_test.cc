// Ways between two daemons that are cut, while there are others.

#include "tests/support/cut_ways.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "src/transport/stream/movable_stream.h"
#include "tests/support/transport_node.h"

namespace harmonaize::testing {
namespace {

using transport::NetworkAddress;
using transport::RailOptions;
using transport::TransportOptions;

const std::vector<std::string> kRails = {"127.0.0.2", "127.0.0.3", "127.0.0.4"};
const std::string kControl = "127.0.0.1";

class CutWaysTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!transport::MovableStream::Movable()) GTEST_SKIP() << "needs CAP_NET_ADMIN";
    a_ = std::make_unique<TransportNode>(Options());
    b_ = std::make_unique<TransportNode>(Options());
    ASSERT_TRUE(Join(a_.get(), b_.get()));
  }

  TransportOptions Options() const {
    TransportOptions options = LoopbackOptions();
    options.rails.clear();
    for (const std::string& address : kRails) {
      RailOptions rail;
      rail.device = "lo";
      rail.address = *NetworkAddress::Parse(address);
      rail.prefix_bits = 32;
      rail.connections = connections_;
      options.rails.push_back(rail);
    }
    return options;
  }

  bool Pump(const std::function<bool()>& done, double seconds = 20) {
    return PumpUntil({a_.get(), b_.get()}, done, seconds);
  }

  /// A message each way over a rail, which have to arrive.
  struct Exchange {
    std::vector<std::byte> sent;
    std::vector<std::byte> there;
    std::vector<std::byte> back;
    std::vector<std::unique_ptr<Outcome>> outcomes;

    bool Done() const {
      return std::ranges::all_of(outcomes, [](const auto& outcome) { return outcome->done; });
    }
    void Check() const {
      for (const auto& outcome : outcomes) {
        EXPECT_TRUE(outcome->status.ok()) << outcome->status.message();
        EXPECT_EQ(outcome->calls, 1);
      }
      EXPECT_EQ(there, sent);
      EXPECT_EQ(back, sent);
    }
  };
  std::unique_ptr<Exchange> Begin(size_t bytes, size_t rail) {
    auto exchange = std::make_unique<Exchange>();
    const uint64_t number = ++exchanges_;
    exchange->sent = Pattern(bytes, number);
    exchange->there.resize(bytes);
    exchange->back.resize(bytes);
    exchange->outcomes.push_back(b_->Receive(b_->peer(), 2 * number, exchange->there));
    exchange->outcomes.push_back(a_->Send(a_->peer(), 2 * number, exchange->sent, rail));
    exchange->outcomes.push_back(b_->Send(b_->peer(), 2 * number + 1, exchange->sent, rail));
    exchange->outcomes.push_back(a_->Receive(a_->peer(), 2 * number + 1, exchange->back));
    return exchange;
  }

  bool Astray(TransportNode* node, size_t rail) const {
    const transport::PeerId peer = node->peer();
    return (*node)->Traffic(std::span(&peer, 1)).at(0).rails.at(rail).astray;
  }

  int connections_ = 1;
  uint64_t exchanges_ = 0;
  CutWays ways_;
  std::unique_ptr<TransportNode> a_;
  std::unique_ptr<TransportNode> b_;
};

class CutWaysWithSpreadRailsTest : public CutWaysTest {
 protected:
  CutWaysWithSpreadRailsTest() { connections_ = 4; }
};

TEST_F(CutWaysTest, MessagesOfACutRailGoAnotherWayAndReturn) {
  // What is under way when it is cut, ...
  std::vector<std::unique_ptr<Exchange>> exchanges;
  for (const size_t bytes : {size_t{0}, size_t{8}, size_t{40000}, size_t{5} << 20}) {
    exchanges.push_back(Begin(bytes, 1));
  }
  (*a_)->Progress();
  (*b_)->Progress();
  ways_.Cut(kRails[1]);
  const auto all_done = [&] {
    return std::ranges::all_of(exchanges, [](const auto& one) { return one->Done(); });
  };
  ASSERT_TRUE(Pump(all_done));
  EXPECT_TRUE(Astray(a_.get(), 1));
  EXPECT_TRUE(Astray(b_.get(), 1));
  EXPECT_FALSE(Astray(a_.get(), 0));
  // ... what comes later, ...
  for (const size_t bytes : {size_t{8}, size_t{5} << 20}) exchanges.push_back(Begin(bytes, 1));
  ASSERT_TRUE(Pump(all_done));
  // ... and what is under way when it is mended.
  exchanges.push_back(Begin(size_t{20} << 20, 1));
  ways_.Mend(kRails[1]);
  ASSERT_TRUE(Pump([&] { return !Astray(a_.get(), 1) && !Astray(b_.get(), 1); }));
  exchanges.push_back(Begin(size_t{1} << 20, 1));
  ASSERT_TRUE(Pump(all_done));
  for (const auto& exchange : exchanges) exchange->Check();
  EXPECT_TRUE(a_->losses.empty());
  EXPECT_TRUE(b_->losses.empty());
}

TEST_F(CutWaysTest, WhoDidNotConnectAsksTheOther) {
  // Only the acceptor sends, so only it sees that nothing arrives.
  const std::vector<std::byte> sent = Pattern(size_t{5} << 20, 1);
  std::vector<std::byte> received(sent.size());
  const auto receive = a_->Receive(a_->peer(), 1, received);
  const auto send = b_->Send(b_->peer(), 1, sent, 2);
  ASSERT_TRUE(Pump([&] { return a_->peer() != 0 && (*b_)->counters().requests_under_way > 0; }));
  PumpFor({a_.get(), b_.get()}, 0.0005);
  ways_.Cut(kRails[2]);
  ASSERT_TRUE(Pump([&] { return receive->done && send->done; }));
  EXPECT_TRUE(receive->status.ok()) << receive->status.message();
  EXPECT_EQ(received, sent);
}

TEST_F(CutWaysTest, ControlMessagesGoAnotherWay) {
  std::vector<std::string> said;
  const auto say = [&](int messages) {
    for (int i = 0; i < messages; ++i) {
      said.push_back(std::string(static_cast<size_t>(1 + i * 37), 'a') +
                     std::to_string(said.size()));
      const auto bytes = std::as_bytes(std::span(said.back()));
      EXPECT_TRUE((*a_)->SendControl(a_->peer(), bytes).ok());
      EXPECT_TRUE((*b_)->SendControl(b_->peer(), bytes).ok());
    }
  };
  say(20);
  ways_.Cut(kControl);
  say(20);
  ASSERT_TRUE(Pump([&] { return a_->control.size() == 40 && b_->control.size() == 40; }));
  // Longer than a silent peer would be borne.
  PumpFor({a_.get(), b_.get()}, 2.5);
  ways_.Mend(kControl);
  say(20);
  ASSERT_TRUE(Pump([&] { return a_->control.size() == 60 && b_->control.size() == 60; }));
  EXPECT_EQ(a_->control, said);
  EXPECT_EQ(b_->control, said);
  EXPECT_TRUE(a_->losses.empty());
  EXPECT_TRUE(b_->losses.empty());
}

TEST_F(CutWaysTest, LinksAreFormedBesideCutWays) {
  TransportNode c(Options());
  ways_.Cut(kRails[0]);
  a_->Connect(c.address);
  ASSERT_TRUE(PumpUntil({a_.get(), b_.get(), &c}, [&] { return a_->connected.size() == 2; }));
  ASSERT_TRUE(a_->connected.back().ok()) << a_->connected.back().status().message();
  ASSERT_EQ(a_->ups.back().second.rails, kRails.size());
  EXPECT_TRUE(Astray(a_.get(), 0));
  EXPECT_TRUE(Astray(&c, 0));
  ways_.Mend(kRails[0]);
  EXPECT_TRUE(
      PumpUntil({a_.get(), b_.get(), &c}, [&] { return !Astray(a_.get(), 0) && !Astray(&c, 0); }));
}

TEST_F(CutWaysTest, ConnectTriesOtherWays) {
  // The kernel connects from the address that it connects to, the rails from their own.
  TransportNode c(Options());
  ways_.Cut(kControl, /*from=*/kControl);
  a_->Connect(c.address);
  ASSERT_TRUE(PumpUntil({a_.get(), b_.get(), &c}, [&] { return a_->connected.size() == 2; }));
  EXPECT_TRUE(a_->connected.back().ok()) << a_->connected.back().status().message();
}

TEST_F(CutWaysTest, AllWaysCutIsALostPeer) {
  const auto exchange = Begin(size_t{5} << 20, 0);
  (*a_)->Progress();
  for (const std::string& rail : kRails) ways_.Cut(rail);
  ways_.Cut(kControl);
  ASSERT_TRUE(Pump([&] { return exchange->Done(); }));
  for (const auto& outcome : exchange->outcomes) EXPECT_FALSE(outcome->status.ok());
  EXPECT_EQ(a_->losses.size(), 1u);
  EXPECT_EQ(b_->losses.size(), 1u);
}

TEST_F(CutWaysTest, APeerThatDiesBesideACutIsLost) {
  // More than the sockets' buffers hold, which goes on its way before the cut.
  const auto exchange = Begin(size_t{32} << 20, 0);
  (*a_)->Progress();
  ways_.Cut(kRails[0]);
  // Shorter than it takes to find the cut and another way.
  PumpFor({a_.get(), b_.get()}, 0.05);
  b_->Stop();
  ASSERT_TRUE(PumpUntil({a_.get()}, [&] { return !a_->losses.empty(); }));
  EXPECT_FALSE(exchange->outcomes[1]->status.ok());
}

TEST_F(CutWaysWithSpreadRailsTest, EachConnectionFindsAWay) {
  ways_.Cut(kRails[2]);
  std::vector<std::unique_ptr<Exchange>> exchanges;
  for (int i = 0; i < 12; ++i) exchanges.push_back(Begin(size_t{1} << 20, 2));
  ASSERT_TRUE(Pump(
      [&] { return std::ranges::all_of(exchanges, [](const auto& one) { return one->Done(); }); }));
  for (const auto& exchange : exchanges) exchange->Check();
  EXPECT_TRUE(a_->losses.empty());
}

class CutWaysStressTest : public CutWaysTest, public ::testing::WithParamInterface<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Seeds, CutWaysStressTest, ::testing::Values(1u));

// Ways are cut and mended at random, also those that streams have just been moved to; one is left.
TEST_P(CutWaysStressTest, EverythingArrivesOnceAndWhole) {
  std::mt19937 random(GetParam());
  const auto draw = [&](size_t below) {
    return std::uniform_int_distribution<size_t>(0, below - 1)(random);
  };
  std::vector<std::string> all = kRails;
  all.push_back(kControl);
  std::vector<std::unique_ptr<Exchange>> exchanges;
  std::vector<std::string> said;
  for (int round = 0; round < 20; ++round) {
    for (size_t i = draw(6); i > 0; --i) {
      const size_t bytes = size_t{1} << draw(22);
      exchanges.push_back(Begin(bytes + draw(100), draw(kRails.size())));
    }
    said.push_back(std::to_string(round));
    EXPECT_TRUE((*a_)->SendControl(a_->peer(), std::as_bytes(std::span(said.back()))).ok());
    EXPECT_TRUE((*b_)->SendControl(b_->peer(), std::as_bytes(std::span(said.back()))).ok());
    const std::string& way = all[draw(all.size())];
    if (ways_.cut().contains(way)) {
      ways_.Mend(way);
    } else if (ways_.cut().size() + 1 < all.size()) {
      ways_.Cut(way);
    }
    PumpFor({a_.get(), b_.get()}, 0.01 * static_cast<double>(draw(40)));
  }
  while (!ways_.cut().empty()) ways_.Mend(*ways_.cut().begin());
  ASSERT_TRUE(Pump([&] {
    return std::ranges::all_of(exchanges, [](const auto& one) { return one->Done(); }) &&
           a_->control.size() == said.size() && b_->control.size() == said.size();
  })) << "losses: "
      << (a_->losses.empty() ? "none" : a_->losses[0].second);
  for (const auto& exchange : exchanges) exchange->Check();
  EXPECT_EQ(a_->control, said);
  EXPECT_EQ(b_->control, said);
  EXPECT_TRUE(a_->losses.empty());
  EXPECT_TRUE(b_->losses.empty());
}

}  // namespace
}  // namespace harmonaize::testing

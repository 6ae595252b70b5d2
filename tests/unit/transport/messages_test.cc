// Messages between transports of one process: all sizes, any order, many at once, and what becomes
// of them when somebody does not want them any more. Over TCP, over eight connections of TCP, and
// over UCX.

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "src/memory/fault_guard.h"
#include "src/memory/missing_pages.h"
#include "src/memory/shared_memory.h"
#include "src/transport/ucx/ucx_library.h"
#include "tests/support/sanitized.h"
#include "tests/support/transport_node.h"

namespace harmonaize::testing {
namespace {

using transport::NetworkAddress;
using transport::RailOptions;
using transport::TransportOptions;

constexpr size_t kMiB = size_t{1} << 20;

class Messages : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_THREAD__)
    // UCX is not built with the sanitizer: what its thread and ours do looks like races.
    if (GetParam() == "ucx") GTEST_SKIP() << "UCX is not instrumented for the thread sanitizer";
#endif
    if (GetParam() == "ucx" && !transport::UcxLibrary::Load().ok()) {
      GTEST_SKIP() << transport::UcxLibrary::Load().status().ToString();
    }
    a_.emplace(Options());
    b_.emplace(Options());
    ASSERT_TRUE(Join(&*a_, &*b_));
  }

  static TransportOptions Options() {
    TransportOptions options = LoopbackOptions();
    if (GetParam() == "eight") options.rails[0].connections = 8;
    if (GetParam() == "ucx") {
      options.rails[0] = RailOptions{};
      options.rails[0].kind = RailOptions::Kind::kUcx;
      options.rails[0].device = "lo";
      options.rails[0].ucx_transports = "tcp";
    }
    return options;
  }

  bool Pump(const std::function<bool()>& done) {
    return PumpUntil({&*a_, &*b_}, done);
  }

  std::optional<TransportNode> a_;
  std::optional<TransportNode> b_;
};

INSTANTIATE_TEST_SUITE_P(Over, Messages, ::testing::Values("tcp", "eight", "ucx"),
                         [](const auto& over) { return over.param; });

TEST_P(Messages, EachSizeBeforeAndAfterItsReceive) {
  uint64_t operation = 0;
  for (const size_t bytes :
       {size_t{0}, size_t{1}, size_t{8}, size_t{47}, size_t{16000}, size_t{65536}, size_t{65537},
        256 * size_t{1024} + 1, 3 * kMiB + 5, 64 * kMiB}) {
    for (const bool receive_first : {true, false}) {
      SCOPED_TRACE(std::to_string(bytes) + (receive_first ? " receive first" : " send first"));
      const std::vector<std::byte> sent = Pattern(bytes, ++operation);
      std::vector<std::byte> received(bytes);
      std::unique_ptr<Outcome> receive;
      if (receive_first) receive = b_->Receive(b_->peer(), operation, received);
      const auto send = a_->Send(a_->peer(), operation, sent);
      if (!receive_first) {
        ASSERT_TRUE(Pump([&] { return (*b_)->counters().arrivals_waiting == 1; }));
        receive = b_->Receive(b_->peer(), operation, received);
      }
      ASSERT_TRUE(Pump([&] { return send->done && receive->done; }));
      EXPECT_TRUE(send->status.ok()) << send->status.ToString();
      EXPECT_TRUE(receive->status.ok()) << receive->status.ToString();
      EXPECT_EQ(receive->bytes, bytes);
      EXPECT_EQ(send->bytes, bytes);
      EXPECT_TRUE(sent == received);
    }
  }
  EXPECT_EQ((*a_)->counters().requests_under_way, 0u);
  EXPECT_EQ((*b_)->counters().arrivals_waiting, 0u);
}

TEST_P(Messages, ManyInFlightBothWaysInRandomOrder) {
  struct Exchange {
    std::vector<std::byte> sent;
    std::vector<std::byte> received;
    std::unique_ptr<Outcome> send;
    std::unique_ptr<Outcome> receive;
    bool from_a;
  };
  std::mt19937_64 random(7);
  constexpr int kExchanges = 300;
  std::vector<Exchange> exchanges(kExchanges);
  struct Action {
    int exchange;
    bool is_send;
  };
  std::vector<Action> actions;
  for (int i = 0; i < kExchanges; ++i) {
    const size_t limit = size_t{1} << (random() % 20);
    Exchange& one = exchanges[static_cast<size_t>(i)];
    one.sent = Pattern(random() % limit, static_cast<uint64_t>(i));
    one.received.resize(one.sent.size());
    one.from_a = random() % 2 == 0;
    actions.push_back({i, true});
    actions.push_back({i, false});
  }
  std::shuffle(actions.begin(), actions.end(), random);
  for (const Action& action : actions) {
    Exchange& one = exchanges[static_cast<size_t>(action.exchange)];
    TransportNode& actor = one.from_a == action.is_send ? *a_ : *b_;
    const auto operation = static_cast<uint64_t>(action.exchange);
    if (action.is_send) {
      one.send = actor.Send(actor.peer(), operation, one.sent);
    } else {
      one.receive = actor.Receive(actor.peer(), operation, one.received);
    }
    for (uint64_t i = random() % 4; i > 0; --i) (random() % 2 == 0 ? *a_ : *b_)->Progress();
  }
  ASSERT_TRUE(Pump([&] {
    return std::ranges::all_of(exchanges,
                               [](const auto& one) { return one.send->done && one.receive->done; });
  }));
  for (const Exchange& one : exchanges) {
    EXPECT_TRUE(one.send->status.ok() && one.receive->status.ok());
    EXPECT_TRUE(one.sent == one.received);
    EXPECT_EQ(one.send->calls, 1);
    EXPECT_EQ(one.receive->calls, 1);
  }
}

TEST_P(Messages, OfOneTagKeepTheirOrder) {
  std::vector<std::vector<std::byte>> received(20, std::vector<std::byte>(100));
  std::vector<std::vector<std::byte>> sent;
  std::vector<std::unique_ptr<Outcome>> outcomes;
  for (size_t i = 0; i < received.size(); ++i) sent.push_back(Pattern(100, i));
  for (size_t i = 0; i < 10; ++i) outcomes.push_back(b_->Receive(b_->peer(), 1, received[i]));
  for (const auto& one : sent) outcomes.push_back(a_->Send(a_->peer(), 1, one));
  ASSERT_TRUE(Pump([&] { return (*b_)->counters().arrivals_waiting == 10; }));
  for (size_t i = 10; i < 20; ++i) outcomes.push_back(b_->Receive(b_->peer(), 1, received[i]));
  ASSERT_TRUE(Pump(
      [&] { return std::ranges::all_of(outcomes, [](const auto& one) { return one->done; }); }));
  EXPECT_TRUE(sent == received);
}

TEST_P(Messages, ABufferThatIsTooSmallIsAnErrorThatNamesBothSizes) {
  for (const size_t bytes : {size_t{100}, kMiB}) {
    for (const bool receive_first : {true, false}) {
      const uint64_t operation = 2 * bytes + receive_first;
      const std::vector<std::byte> sent(bytes);
      std::vector<std::byte> buffer(bytes - 1);
      std::unique_ptr<Outcome> receive;
      if (receive_first) receive = b_->Receive(b_->peer(), operation, buffer);
      const auto send = a_->Send(a_->peer(), operation, sent);
      if (!receive_first) {
        ASSERT_TRUE(Pump([&] { return (*b_)->counters().arrivals_waiting == 1; }));
        receive = b_->Receive(b_->peer(), operation, buffer);
      }
      ASSERT_TRUE(Pump([&] { return send->done && receive->done; }));
      EXPECT_EQ(receive->status.code(), Code::kInvalidUsage);
      EXPECT_NE(receive->status.message().find(std::to_string(bytes)), std::string::npos);
      EXPECT_NE(receive->status.message().find(std::to_string(bytes - 1)), std::string::npos);
    }
  }
  // The link has not suffered.
  const std::vector<std::byte> sent = Pattern(5000, 1);
  std::vector<std::byte> received(5000);
  const auto receive = b_->Receive(b_->peer(), 1, received);
  const auto send = a_->Send(a_->peer(), 1, sent);
  ASSERT_TRUE(Pump([&] { return send->done && receive->done; }));
  EXPECT_TRUE(sent == received);
}

TEST_P(Messages, CancelEndsWhatIsPostedAndWhatMoves) {
  std::mt19937_64 random(11);
  std::vector<std::byte> sent = Pattern(8 * kMiB, 3);
  std::vector<std::byte> received(8 * kMiB);
  for (uint64_t round = 0; round < (kSanitized ? 12 : 60); ++round) {
    const size_t bytes = round % 3 == 0 ? 20000 : 8 * kMiB;
    const auto receive = b_->Receive(b_->peer(), round, std::span(received).first(bytes));
    const auto send = a_->Send(a_->peer(), round, std::span(sent).first(bytes));
    for (uint64_t i = random() % 40; i > 0; --i) (random() % 2 == 0 ? *a_ : *b_)->Progress();
    if (round % 2 == 0) {
      (*a_)->Cancel(a_->peer(), round);
    } else {
      (*b_)->Cancel(b_->peer(), round);
    }
    // Where the other side's part was not under way yet it does not end by itself.
    PumpFor({&*a_, &*b_}, 0.003);
    (*a_)->Cancel(a_->peer(), round);
    (*b_)->Cancel(b_->peer(), round);
    ASSERT_TRUE(Pump([&] { return send->done && receive->done; })) << round;
    EXPECT_EQ(send->calls + receive->calls, 2);
    // The buffers are ours again: nothing may write into them.
    std::fill(received.begin(), received.end(), std::byte{7});
    PumpFor({&*a_, &*b_}, 0.003);
    EXPECT_TRUE(std::ranges::all_of(received, [](std::byte b) { return b == std::byte{7}; }));
  }
  const auto receive = b_->Receive(b_->peer(), 1000, received);
  const auto send = a_->Send(a_->peer(), 1000, sent);
  ASSERT_TRUE(Pump([&] { return send->done && receive->done; }));
  EXPECT_TRUE(send->status.ok() && receive->status.ok());
  EXPECT_TRUE(sent == received);
  EXPECT_TRUE(a_->losses.empty() && b_->losses.empty());
  EXPECT_EQ((*b_)->counters().arrivals_waiting, 0u);
}

TEST_P(Messages, WhatComesForACancelledOperationIsDropped) {
  (*b_)->Cancel(b_->peer(), 5);
  const std::vector<std::byte> small(100);
  const std::vector<std::byte> large(kMiB);
  const auto first = a_->Send(a_->peer(), 5, small);
  const auto second = a_->Send(a_->peer(), 5, large);
  ASSERT_TRUE(Pump([&] { return first->done && second->done; }));
  PumpFor({&*a_, &*b_}, 0.02);
  EXPECT_EQ((*b_)->counters().arrivals_waiting, 0u);
}

TEST_P(Messages, NobodyWaitsForALostPeer) {
  std::vector<std::byte> buffer(4 * kMiB);
  const std::vector<std::byte> sent(4 * kMiB);
  std::vector<std::unique_ptr<Outcome>> outcomes;
  outcomes.push_back(a_->Receive(a_->peer(), 1, buffer));
  outcomes.push_back(a_->Send(a_->peer(), 2, sent));
  outcomes.push_back(a_->Send(a_->peer(), 3, std::span(sent).first(10)));
  for (int i = 0; i < 5; ++i) (*a_)->Progress();
  b_->Stop();
  ASSERT_TRUE(PumpUntil({&*a_}, [&] {
    return !a_->losses.empty() &&
           std::ranges::all_of(outcomes, [](const auto& one) { return one->done; });
  }));
  EXPECT_EQ(outcomes[0]->status.code(), Code::kRemoteError);
  EXPECT_EQ(outcomes[1]->status.code(), Code::kRemoteError);
  // A tenant may see these.
  EXPECT_EQ(outcomes[0]->status.message().find("127.0.0.1"), std::string::npos);
  EXPECT_EQ((*a_)->PostSend(a_->peer(), {0}, {9, 0, 0}, sent, {}).code(), Code::kRemoteError);
  EXPECT_EQ((*a_)->PostReceive(a_->peer(), {9, 0, 0}, buffer, {}).code(), Code::kRemoteError);
  EXPECT_EQ((*a_)->counters().requests_under_way, 0u);
}

TEST_P(Messages, ARailThatIsNotThereIsRefused) {
  EXPECT_EQ((*a_)->PostSend(a_->peer(), {1}, {1, 0, 0}, {}, {}).code(), Code::kInvalidArgument);
}

std::vector<transport::LinkTraffic> TrafficOf(TransportNode& node) {
  const transport::PeerId peer = node.peer();
  return node->Traffic({&peer, 1});
}

TEST_P(Messages, AreCountedByTheirRails) {
  const std::vector<std::byte> sent = Pattern(8 * kMiB, 1);
  std::vector<std::byte> received(sent.size());
  const auto receive = b_->Receive(b_->peer(), 1, received);
  const auto send = a_->Send(a_->peer(), 1, sent);
  ASSERT_TRUE(Pump([&] { return send->done && receive->done; }));
  const std::vector<transport::LinkTraffic> links = TrafficOf(*a_);
  ASSERT_EQ(links.size(), 1u);
  EXPECT_EQ(links[0].peer, a_->peer());
  ASSERT_EQ(links[0].rails.size(), 1u);
  const transport::RailTraffic& rail = links[0].rails[0];
  EXPECT_FALSE(rail.name.empty());
  if (GetParam() == "ucx") return;
  EXPECT_EQ(rail.connections, GetParam() == "eight" ? 8 : 1);
  const transport::RailTraffic theirs = TrafficOf(*b_).at(0).rails.at(0);
  EXPECT_GE(theirs.received_bytes, sent.size());
  // The last acknowledgements may be on their way.
  ASSERT_TRUE(Pump([&] { return TrafficOf(*a_)[0].rails[0].sent_bytes >= sent.size(); }));
  EXPECT_GT(rail.sent_packets, 0u);
  EXPECT_LE(rail.resent_packets, rail.sent_packets);
  EXPECT_GT(rail.least_round_trip_seconds, 0);
  EXPECT_GE(rail.round_trip_seconds, rail.least_round_trip_seconds);
}

TEST_P(Messages, GoOnWhileTheOwnerSleeps) {
  const std::vector<std::byte> sent = Pattern(kMiB, 1);
  std::vector<std::byte> received(kMiB);
  for (uint64_t i = 0; i < 50; ++i) {
    const auto receive = b_->Receive(b_->peer(), i, received);
    const auto send = a_->Send(a_->peer(), i, std::span(sent).first(i % 2 == 0 ? kMiB : 8));
    ASSERT_TRUE(SleepUntil({&*a_, &*b_}, [&] { return send->done && receive->done; }));
    EXPECT_TRUE(receive->status.ok());
  }
}

TEST(SmallMessages, ThatNobodyPostedForAreBounded) {
  TransportNode a;
  TransportNode b;
  ASSERT_TRUE(Join(&a, &b));
  // 8 MiB of small messages: what exceeds the window stays with the sender.
  constexpr size_t kBytes = 16384;
  constexpr uint64_t kCount = 512;
  const std::vector<std::byte> sent = Pattern(kBytes, 1);
  std::deque<Outcome> outcomes;
  const auto post = [&](uint64_t operation) {
    outcomes.emplace_back();
    ASSERT_TRUE(
        a->PostSend(a.peer(), {0}, {operation, 0, 0}, sent, outcomes.back().completion()).ok());
  };
  for (uint64_t i = 0; i < kCount; ++i) post(i);
  ASSERT_TRUE(PumpUntil({&a, &b}, [&] { return b->counters().arrivals_waiting == kCount; }));
  EXPECT_LE(b->counters().arrival_bytes, kMiB);
  EXPECT_GE(b->counters().arrival_bytes, kMiB / 2);
  std::vector<std::byte> received(kBytes);
  for (uint64_t i = kCount; i-- > 0;) {
    const auto receive = b.Receive(b.peer(), i, received);
    ASSERT_TRUE(PumpUntil({&a, &b}, [&] { return receive->done; }));
    EXPECT_TRUE(sent == received);
  }
  ASSERT_TRUE(PumpUntil({&a, &b}, [&] {
    return std::ranges::all_of(outcomes, [](const auto& one) { return one.done; });
  }));
  // Once they are taken, small messages go at once again.
  post(kCount);
  ASSERT_TRUE(PumpUntil({&a, &b}, [&] { return b->counters().arrival_bytes == kBytes; }));
}

TEST(Tenants, ShareAConnectionByTheirWeights) {
  TransportNode a;
  TransportNode b;
  ASSERT_TRUE(Join(&a, &b));
  // All want to send as much, in messages of sizes of their own.
  constexpr size_t kEach = 64 * kMiB;
  const std::vector<size_t> sizes = {16384, kMiB, 4 * kMiB};
  std::vector<std::byte> buffer(4 * kMiB);
  struct Sent {
    size_t bytes = 0;
    static void Count(void* context, const Status&, size_t bytes) {
      static_cast<Sent*>(context)->bytes += bytes;
    }
  };
  std::vector<Sent> sent(sizes.size());
  std::deque<Outcome> outcomes;
  for (uint32_t tenant = 0; tenant < sizes.size(); ++tenant) {
    const size_t bytes = sizes[tenant];
    for (uint32_t i = 0; i < kEach / bytes; ++i) {
      const transport::MessageTag tag{tenant + 1, i, 0};
      outcomes.emplace_back();
      ASSERT_TRUE(b->PostReceive(b.peer(), tag, buffer, outcomes.back().completion()).ok());
      const transport::TenantShare share{tenant, static_cast<float>(1 << tenant)};
      ASSERT_TRUE(a->PostSend(a.peer(), {.share = share}, tag, std::span(buffer).first(bytes),
                              {Sent::Count, &sent[tenant]})
                      .ok());
    }
  }
  // When the one with most has got all, the others have got their part of it.
  ASSERT_TRUE(PumpUntil({&a, &b}, [&] { return sent[2].bytes == kEach; }));
  EXPECT_NEAR(static_cast<double>(sent[1].bytes), kEach / 2, 3 * kMiB);
  EXPECT_NEAR(static_cast<double>(sent[0].bytes), kEach / 4, 3 * kMiB);
  ASSERT_TRUE(PumpUntil({&a, &b}, [&] { return sent[0].bytes + sent[1].bytes == 2 * kEach; }));
}

/// A rail of several connections.
TransportOptions SpreadOptions() {
  TransportOptions options = LoopbackOptions();
  options.rails[0].connections = 8;
  return options;
}

// What one connection cannot take at once goes by the others, and arrives whole.
TEST(SpreadMessages, ArriveOverAllConnections) {
  TransportNode a(SpreadOptions());
  TransportNode b(SpreadOptions());
  ASSERT_TRUE(Join(&a, &b));
  constexpr size_t kCount = 400;
  std::vector<std::vector<std::byte>> sent;
  std::vector<std::vector<std::byte>> received(kCount);
  std::vector<std::unique_ptr<Outcome>> outcomes;
  for (size_t i = 0; i < kCount; ++i) {
    const size_t bytes = i % 2 == 0 ? 65536 : 300000 + i;
    sent.push_back(Pattern(bytes, i));
    received[i].resize(bytes);
  }
  // From both sides at once.
  for (size_t i = 0; i < kCount; ++i) {
    TransportNode& from = i % 4 < 2 ? a : b;
    TransportNode& to = i % 4 < 2 ? b : a;
    outcomes.push_back(from.Send(from.peer(), i, sent[i]));
    outcomes.push_back(to.Receive(to.peer(), i, received[i]));
  }
  ASSERT_TRUE(PumpUntil({&a, &b}, [&] {
    return std::ranges::all_of(outcomes, [](const auto& one) { return one->done; });
  }));
  for (const auto& [peer, why] : a.losses) ADD_FAILURE() << why;
  for (const auto& [peer, why] : b.losses) ADD_FAILURE() << why;
  for (const auto& one : outcomes) EXPECT_TRUE(one->status.ok()) << one->status.ToString();
  EXPECT_TRUE(sent == received);
  EXPECT_EQ(a->counters().requests_under_way, 0u);
}

TEST(SpreadMessages, OfOneTagKeepTheirOrderOnTheFirstConnection) {
  TransportNode a(SpreadOptions());
  TransportNode b(SpreadOptions());
  ASSERT_TRUE(Join(&a, &b));
  constexpr size_t kBytes = 60000;
  std::vector<std::vector<std::byte>> received(100, std::vector<std::byte>(kBytes));
  std::vector<std::vector<std::byte>> sent;
  std::deque<Outcome> outcomes;
  for (size_t i = 0; i < received.size(); ++i) {
    sent.push_back(Pattern(kBytes, i));
    outcomes.emplace_back();
    ASSERT_TRUE(
        b->PostReceive(b.peer(), {1, 0, 0}, received[i], outcomes.back().completion()).ok());
  }
  for (const std::vector<std::byte>& one : sent) {
    outcomes.emplace_back();
    ASSERT_TRUE(a->PostSend(a.peer(), {.rail = 0, .first_connection = true}, {1, 0, 0}, one,
                            outcomes.back().completion())
                    .ok());
  }
  ASSERT_TRUE(PumpUntil({&a, &b}, [&] {
    return std::ranges::all_of(outcomes, [](const auto& one) { return one.done; });
  }));
  EXPECT_TRUE(sent == received);
}

// Memory of tenants, of which pages are missing: it must cost nobody else the connection.
class MessagesOfHoles : public Messages {
 protected:
  void SetUp() override {
    Messages::SetUp();
    if (IsSkipped()) return;
    ASSERT_TRUE(FaultGuard::Install().ok());
    const Status refuses = MissingPages::Install();
    if (!refuses.ok()) GTEST_SKIP() << refuses.ToString();
    Result<SharedMemory> memory = CreateSharedMemory("tenant", kMiB);
    ASSERT_TRUE(memory.ok());
    memory_ = std::move(memory->mapping);
    guard_ = FaultGuard(memory_.data(), kMiB);
    ASSERT_TRUE(MissingPages::Refuse(memory_.data(), kMiB).ok());
  }
  void TearDown() override {
    // The transports must not use what the guard is gone of.
    a_.reset();
    b_.reset();
    guard_.Reset();
  }

  /// A message of another tenant goes on working.
  void ExpectServing(uint64_t operation) {
    const std::vector<std::byte> sent = Pattern(300'000, operation);
    std::vector<std::byte> received(sent.size());
    const auto receive = b_->Receive(b_->peer(), operation, received);
    const auto send = a_->Send(a_->peer(), operation, sent);
    ASSERT_TRUE(Pump([&] { return send->done && receive->done; }));
    EXPECT_TRUE(receive->status.ok()) << receive->status.ToString();
    EXPECT_TRUE(sent == received);
  }

  Mapping memory_;
  FaultGuard guard_;
};

INSTANTIATE_TEST_SUITE_P(Over, MessagesOfHoles, ::testing::Values("tcp", "eight"),
                         [](const auto& over) { return over.param; });

TEST_P(MessagesOfHoles, AreSent) {
  for (const size_t bytes : {size_t{8}, kMiB}) {
    std::vector<std::byte> received(bytes);
    const auto receive = b_->Receive(b_->peer(), bytes, received);
    const auto send = a_->Send(a_->peer(), bytes, std::span(memory_.data(), bytes));
    ASSERT_TRUE(Pump([&] { return send->done && receive->done; }));
    EXPECT_TRUE(receive->status.ok()) << receive->status.ToString();
    EXPECT_TRUE(guard_.lost());
    ExpectServing(bytes + 1);
  }
}

TEST_P(MessagesOfHoles, AreReceived) {
  const std::vector<std::byte> sent = Pattern(kMiB, 1);
  const auto receive = b_->Receive(b_->peer(), 1, std::span(memory_.data(), kMiB));
  const auto send = a_->Send(a_->peer(), 1, sent);
  ASSERT_TRUE(Pump([&] { return send->done && receive->done; }));
  EXPECT_TRUE(receive->status.ok()) << receive->status.ToString();
  EXPECT_TRUE(guard_.lost());
  ExpectServing(2);
}

}  // namespace
}  // namespace harmonaize::testing

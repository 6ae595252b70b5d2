// Probes of a rail, over real connections.

#include "daemon/links/link_prober.h"

#include <gtest/gtest.h>

#include "src/base/clock.h"
#include "tests/support/transport_node.h"

namespace harmonaize::daemon {
namespace {

/// Two probers over real connections.
using testing::PumpUntil;

class LinkProberTest : public ::testing::Test {
 protected:
  LinkProberTest()
      : at_a_(&*a_, [this](transport::PeerId,
                           const ClusterMessage& message) { Take(&at_b_, b_, message); }),
        at_b_(&*b_, [this](transport::PeerId, const ClusterMessage& message) {
          Take(&at_a_, a_, message);
        }) {
    EXPECT_TRUE(Join(&a_, &b_));
  }

  void Take(LinkProber* prober, testing::TransportNode& node, const ClusterMessage& message) {
    const uint64_t now = MonotonicNanoseconds();
    if (deaf_) return;
    if (const auto* one = message.As<LinkProbeMessage>()) {
      prober->OnProbe(node.peer(), *one, now);
    }
    if (const auto* one = message.As<LinkProbedMessage>()) {
      prober->OnProbed(node.peer(), *one, now);
    }
  }

  testing::TransportNode a_;
  testing::TransportNode b_;
  LinkProber at_a_;
  LinkProber at_b_;
  bool deaf_ = false;
};

TEST_F(LinkProberTest, FindsWhatARailCarries) {
  for (const double stated : {1e6, 100e6, 1e12}) {
    double found = -1;
    const auto number = static_cast<uint64_t>(stated);
    at_a_.Send(a_.peer(), 0, stated, number, MonotonicNanoseconds(),
               [&](double rate) { found = rate; });
    ASSERT_TRUE(PumpUntil({&a_, &b_}, [&] { return found >= 0; }));
    EXPECT_GT(found, 0);
    EXPECT_FALSE(at_a_.busy());
    EXPECT_FALSE(at_b_.busy());
  }
  EXPECT_EQ(a_->counters().requests_under_way, 0u);
  EXPECT_EQ(b_->counters().requests_under_way, 0u);
}

TEST_F(LinkProberTest, GivesUpWhereNobodyAnswers) {
  deaf_ = true;
  bool called = false;
  const uint64_t now = MonotonicNanoseconds();
  at_a_.Send(a_.peer(), 0, 1e6, 5, now, [&](double) { called = true; });
  at_b_.OnProbe(b_.peer(), {6, 4}, now);  // a probe of which nothing will come
  ASSERT_TRUE(PumpUntil({&a_, &b_}, [&] { return b_->counters().arrivals_waiting == 4; }));
  at_a_.Tick(now + LinkProber::kGivenUpNs / 2);
  EXPECT_TRUE(at_a_.busy());
  at_a_.Tick(now + LinkProber::kGivenUpNs + 1);
  EXPECT_FALSE(at_a_.busy());
  ASSERT_TRUE(PumpUntil({&a_, &b_}, [&] {
    at_b_.Tick(now + LinkProber::kGivenUpNs + 1);
    return !at_b_.busy();
  }));
  // Messages that came before the receiver knew of their probe are taken when it does.
  deaf_ = false;
  at_b_.OnProbe(b_.peer(), {5, 4}, now);
  ASSERT_TRUE(PumpUntil({&a_, &b_}, [&] { return !at_b_.busy(); }));
  EXPECT_EQ(b_->counters().arrivals_waiting, 0u);
  EXPECT_FALSE(called);
}

TEST_F(LinkProberTest, ALostPeerLeavesNothing) {
  const uint64_t now = MonotonicNanoseconds();
  at_b_.OnProbe(b_.peer(), {6, 4}, now);
  deaf_ = true;
  a_.Stop();
  ASSERT_TRUE(PumpUntil({&b_}, [&] { return !b_.losses.empty(); }));
  ASSERT_TRUE(PumpUntil({&b_}, [&] { return !at_b_.busy(); }));
  at_b_.Send(b_.ups.back().first, 0, 1e6, 7, now, [](double) {});
  EXPECT_FALSE(at_b_.busy());
}

TEST_F(LinkProberTest, ARailThatIsNotThereIsNoProbe) {
  at_a_.Send(a_.peer(), 17, 1e6, 5, MonotonicNanoseconds(), [](double) {});
  EXPECT_FALSE(at_a_.busy());
}

}  // namespace
}  // namespace harmonaize::daemon

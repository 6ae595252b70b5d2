// The queue of one direction, from when frames were sent and came, by clocks that know nothing of
// each other.

#include "src/transport/link/arrival_delay.h"

#include <gtest/gtest.h>

namespace harmonaize::transport {
namespace {

constexpr uint64_t kMs = 1'000'000;

/// A way whose receiver's clock is `offset_ns` ahead, modulo 2^64.
class Way {
 public:
  explicit Way(uint64_t offset_ns) : offset_ns_(offset_ns) {}
  /// One frame a millisecond, for so long, which take `delay_ns` and a bit.
  void Send(uint64_t milliseconds, uint64_t delay_ns) {
    for (uint64_t i = 0; i < milliseconds; ++i) {
      sent_ns_ += kMs;
      delay_.Note(sent_ns_, sent_ns_ + delay_ns + i % 7 * 1000 + offset_ns_);
    }
  }
  void Pass(uint64_t milliseconds) { sent_ns_ += milliseconds * kMs; }
  std::optional<uint64_t> Queue() const { return delay_.QueueNs(sent_ns_ + offset_ns_); }
  ArrivalDelay& delay() { return delay_; }
  uint64_t now_ns() const { return sent_ns_ + offset_ns_; }
  uint64_t sent_ns() const { return sent_ns_; }

 private:
  const uint64_t offset_ns_;
  uint64_t sent_ns_ = 5'000'000'000;
  ArrivalDelay delay_;
};

TEST(ArrivalDelay, NothingIsKnownBeforeAWholePeriod) {
  Way way(0);
  EXPECT_FALSE(way.Queue().has_value());
  way.Send(20, 100'000);
  EXPECT_FALSE(way.Queue().has_value());
}

TEST(ArrivalDelay, IsWhatFramesTakeBeyondTheQuickest) {
  for (const uint64_t offset :
       {uint64_t{0}, uint64_t{1} << 40, uint64_t{0} - (uint64_t{1} << 32)}) {
    Way way(offset);
    way.Send(500, 300'000);
    ASSERT_TRUE(way.Queue().has_value());
    EXPECT_LT(*way.Queue(), 100'000u);
    way.Send(500, 4'300'000);
    EXPECT_NEAR(static_cast<double>(*way.Queue()), 4e6, 1e5);
    way.Send(500, 300'000);
    EXPECT_LT(*way.Queue(), 100'000u);
  }
}

// A receiver that is held up sees many frames late, but not all.
TEST(ArrivalDelay, FramesThatWereReadLateDoNotCount) {
  Way way(12345);
  way.Send(500, 300'000);
  for (int i = 0; i < 60; ++i) {
    way.Send(9, 8'000'000);
    way.Send(1, 300'000);
  }
  EXPECT_LT(*way.Queue(), 100'000u);
}

TEST(ArrivalDelay, OfAWayThatIsQuietNothingIsKnown) {
  Way way(0);
  way.Send(500, 300'000);
  way.Pass(350);
  EXPECT_FALSE(way.Queue().has_value());
  way.Send(1, 300'000);
  EXPECT_FALSE(way.Queue().has_value());
}

// 10 parts in a million: after a minute 0.6 ms, which is no queue.
TEST(ArrivalDelay, ClocksThatDriftMakeNoQueue) {
  ArrivalDelay delay;
  uint64_t sent_ns = 1'000'000'000;
  for (int i = 0; i < 60'000; ++i) {
    sent_ns += kMs;
    delay.Note(sent_ns, sent_ns + 200'000 + sent_ns / 100'000);
  }
  const auto queue = delay.QueueNs(sent_ns + 200'000 + sent_ns / 100'000);
  ASSERT_TRUE(queue.has_value());
  EXPECT_LT(*queue, 50'000u);
}

}  // namespace
}  // namespace harmonaize::transport

// Who may write, where those who write to a rail are held to a rate together.

#include "src/transport/queue/pace.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <memory>
#include <vector>

#include "src/base/clock.h"

namespace harmonaize::transport {
namespace {

class Writer final : public Poller::Handler {
 public:
  void OnReady(uint32_t /*events*/) override {}
  void OnLater() override { ++called; }
  int called = 0;
};

/// Returns whether something may be written now, and else has the writer called later.
bool Admits(Pace* pace, Poller::Handler* writer) {
  const uint64_t now_ns = MonotonicNanoseconds();
  const double wait_ns = pace->WaitNs(now_ns);
  if (wait_ns > 0) pace->CallLater(writer, wait_ns, now_ns);
  return wait_ns <= 0;
}

class PaceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<Poller>> poller = Poller::Create();
    ASSERT_TRUE(poller.ok());
    poller_ = std::move(*poller);
  }
  std::unique_ptr<Pace> Make(double bytes_per_second) {
    Result<std::unique_ptr<Pace>> pace = Pace::Create(poller_.get(), bytes_per_second);
    EXPECT_TRUE(pace.ok());
    return std::move(*pace);
  }
  void WaitAndServe() {
    pollfd event{poller_->fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&event, 1, 10'000), 1);
    poller_->Poll();
    poller_->RunLater();
  }

  std::unique_ptr<Poller> poller_;
  Writer writer_;
};

TEST_F(PaceTest, WhoHasWrittenTooMuchIsCalledLater) {
  const std::unique_ptr<Pace> pace = Make(10e6);
  while (!Admits(pace.get(), &writer_)) WaitAndServe();
  pace->Charge(64 << 10);
  EXPECT_FALSE(Admits(pace.get(), &writer_));
  EXPECT_FALSE(Admits(pace.get(), &writer_));  // waits once all the same
  writer_.called = 0;
  while (writer_.called == 0) WaitAndServe();
  EXPECT_EQ(writer_.called, 1);
  EXPECT_TRUE(Admits(pace.get(), &writer_));
}

/// Sends as much as a pace lets it, and always has more to send.
class Greedy final : public Poller::Handler {
 public:
  explicit Greedy(Pace* pace) : pace_(pace) {}
  void OnReady(uint32_t /*events*/) override {}
  void OnLater() override {
    while (Admits(pace_, this)) {
      pace_->Charge(64 << 10);
      ++frames;
    }
  }
  int frames = 0;

 private:
  Pace* const pace_;
};

TEST_F(PaceTest, WhoAlwaysHasDataDoesNotShutTheOthersOut) {
  const std::unique_ptr<Pace> pace = Make(100e6);
  std::vector<Greedy> writers(3, Greedy(pace.get()));
  for (Greedy& writer : writers) writer.OnLater();
  int frames = 0;
  while (frames < 300) {
    WaitAndServe();
    frames = 0;
    for (const Greedy& writer : writers) frames += writer.frames;
  }
  // A thread that is late finds room for several frames at once.
  for (const Greedy& writer : writers) EXPECT_GT(writer.frames, frames / 10);
}

TEST_F(PaceTest, WhoIsForgottenIsNotCalled) {
  const std::unique_ptr<Pace> pace = Make(1e9);
  pace->Charge(1 << 20);
  EXPECT_FALSE(Admits(pace.get(), &writer_));
  pace->Forget(&writer_);
  WaitAndServe();
  EXPECT_EQ(writer_.called, 0);
}

TEST_F(PaceTest, AllWhoWaitAreCalledWhenALimitIsLifted) {
  Writer other;
  RailPaces paces(poller_.get());
  EXPECT_TRUE(paces.empty());
  paces.Set({{7, 1, Pace::kLeastRate}, {7, 2, 1e9}});
  EXPECT_EQ(paces.Of(7, 3), nullptr);
  Pace* const slow = paces.Of(7, 1);
  slow->Charge(size_t{1} << 40);  // years
  EXPECT_FALSE(Admits(slow, &writer_));
  EXPECT_FALSE(Admits(slow, &other));
  paces.Set({{7, 1, 2 * Pace::kLeastRate}});
  EXPECT_EQ(paces.Of(7, 1), slow);  // it still owes
  EXPECT_FALSE(Admits(slow, &other));
  paces.Set({});
  EXPECT_EQ(paces.Of(7, 1), nullptr);
  poller_->RunLater();
  EXPECT_EQ(writer_.called, 1);
  EXPECT_EQ(other.called, 1);
}

}  // namespace
}  // namespace harmonaize::transport

// Who may write, where those who write to a rail are held to a rate together.

#include <gtest/gtest.h>
#include <poll.h>

#include <limits>
#include <memory>

#include "src/transport/pace.h"

namespace harmonaize::transport {
namespace {

class Writer final : public Poller::Handler {
 public:
  void OnReady(uint32_t /*events*/) override {}
  void OnLater() override { ++called; }
  int called = 0;
};

class PaceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<Poller>> poller = Poller::Create();
    ASSERT_TRUE(poller.ok());
    poller_ = std::move(*poller);
    Result<std::unique_ptr<Pace>> pace = Pace::Create(poller_.get());
    ASSERT_TRUE(pace.ok());
    pace_ = std::move(*pace);
  }
  void WaitAndServe() {
    pollfd event{poller_->fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&event, 1, 10'000), 1);
    poller_->Poll();
    poller_->RunLater();
  }

  std::unique_ptr<Poller> poller_;
  std::unique_ptr<Pace> pace_;
  Writer writer_;
};

TEST_F(PaceTest, WithoutARateNobodyWaits) {
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(pace_->Admit(&writer_));
    pace_->Charge(1 << 30);
  }
}

TEST_F(PaceTest, WhoHasWrittenTooMuchIsCalledLater) {
  pace_->SetRate(10e6);
  while (!pace_->Admit(&writer_)) WaitAndServe();
  pace_->Charge(64 << 10);
  EXPECT_FALSE(pace_->Admit(&writer_));
  EXPECT_FALSE(pace_->Admit(&writer_));  // waits once all the same
  writer_.called = 0;
  while (writer_.called == 0) WaitAndServe();
  EXPECT_EQ(writer_.called, 1);
  EXPECT_TRUE(pace_->Admit(&writer_));
}

TEST_F(PaceTest, AllWhoWaitAreCalledWhenTheRateIsLifted) {
  Writer other;
  pace_->SetRate(Pace::kLeastRate);
  pace_->Charge(size_t{1} << 40);  // years
  EXPECT_FALSE(pace_->Admit(&writer_));
  EXPECT_FALSE(pace_->Admit(&other));
  pace_->SetRate(std::numeric_limits<double>::infinity());
  EXPECT_FALSE(pace_->limited());
  poller_->RunLater();
  EXPECT_EQ(writer_.called, 1);
  EXPECT_EQ(other.called, 1);
  EXPECT_TRUE(pace_->Admit(&writer_));
}

TEST_F(PaceTest, WhoIsForgottenIsNotCalled) {
  pace_->SetRate(1e9);
  pace_->Charge(1 << 20);
  EXPECT_FALSE(pace_->Admit(&writer_));
  pace_->Forget(&writer_);
  WaitAndServe();
  EXPECT_EQ(writer_.called, 0);
}

}  // namespace
}  // namespace harmonaize::transport

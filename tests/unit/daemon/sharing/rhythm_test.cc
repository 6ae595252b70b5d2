// How a communicator's bursts are told from its pauses, and how a burst waits for its turn.

#include "daemon/sharing/rhythm.h"

#include <gtest/gtest.h>

#include "daemon/sharing/turn_gate.h"

namespace harmonaize::daemon {
namespace {

constexpr uint64_t kMs = 1'000'000;

class RhythmTest : public ::testing::Test {
 protected:
  /// Passes a burst of this many operations with short gaps, then a pause.
  void Burst(int operations, uint64_t pause_ms) {
    for (int i = 0; i < operations; ++i) {
      rhythm_.Begin(now_);
      now_ += 10 * kMs;
      rhythm_.End(now_);
      if (i + 1 < operations) now_ += kMs;
    }
    now_ += pause_ms * kMs;
  }

  Rhythm rhythm_;
  uint64_t now_ = 1000 * kMs;
};

TEST_F(RhythmTest, OperationsThatFollowCloselyAreOneBurst) {
  for (int i = 0; i < 20; ++i) Burst(4, 100);
  rhythm_.Begin(now_);
  const auto beat = rhythm_.Of(now_ + 5 * kMs);
  ASSERT_TRUE(beat.has_value());
  EXPECT_NEAR(beat->burst_seconds, 0.043, 1e-6);
  EXPECT_NEAR(beat->pause_seconds, 0.1, 1e-6);
  EXPECT_NEAR(beat->iteration_seconds, 0.143, 1e-6);
  EXPECT_NEAR(beat->begun_seconds, 0.005, 1e-6);
  EXPECT_FALSE(rhythm_.burst_seems_over());
}

TEST_F(RhythmTest, ABurstIsOverWhenItHasHadAsManyOperationsAsOthers) {
  for (int i = 0; i < 20; ++i) Burst(3, 100);
  for (int i = 0; i < 3; ++i) {
    rhythm_.Begin(now_);
    EXPECT_FALSE(rhythm_.burst_seems_over()) << i;
    rhythm_.End(now_ += kMs);
    EXPECT_EQ(rhythm_.burst_seems_over(), i == 2) << i;
  }
}

TEST_F(RhythmTest, OperationsThatOverlapAreOneBurst) {
  for (int i = 0; i < 10; ++i) {
    rhythm_.Begin(now_);
    rhythm_.Begin(now_ + kMs);
    rhythm_.End(now_ + 20 * kMs);
    EXPECT_FALSE(rhythm_.BeginsBurst(now_ + 30 * kMs));
    rhythm_.End(now_ + 40 * kMs);
    now_ += 100 * kMs;
  }
  const auto beat = rhythm_.Of(now_);
  ASSERT_TRUE(beat.has_value());
  EXPECT_EQ(beat->bursts, 10u);
  EXPECT_NEAR(beat->burst_seconds, 0.04, 1e-6);
}

TEST_F(RhythmTest, PausesThatDifferWidelyAreNoRhythm) {
  for (int i = 0; i < 20; ++i) Burst(1, 50 + 100 * static_cast<uint64_t>(i % 3));
  EXPECT_FALSE(rhythm_.Of(now_).has_value());
}

TEST_F(RhythmTest, OnePauseMayDiffer) {
  for (int i = 0; i < 20; ++i) Burst(1, i == 18 ? 400 : 100);
  EXPECT_TRUE(rhythm_.Of(now_).has_value());
}

TEST_F(RhythmTest, WaitingForOthersIsNoPause) {
  for (int i = 0; i < 10; ++i) {
    rhythm_.Wait(now_);
    now_ += static_cast<uint64_t>(i) * 20 * kMs;
    Burst(1, 100);
  }
  const auto beat = rhythm_.Of(now_);
  ASSERT_TRUE(beat.has_value());
  EXPECT_NEAR(beat->pause_seconds, 0.1, 1e-6);
  EXPECT_NEAR(beat->iteration_seconds, 0.11 + 0.14, 1e-6);  // of those with waits of 100 to 180 ms
}

class TurnGateTest : public ::testing::Test {
 protected:
  TurnGateTest() {
    for (int i = 0; i < 10; ++i) Pass();
  }
  /// Passes a burst of one operation, then a pause.
  void Pass() {
    gate_.Begin(now_);
    gate_.End(now_ += 10 * kMs);
    now_ += 100 * kMs;
  }

  static constexpr double kWait = 0.05;
  TurnGate gate_;
  uint64_t now_ = 1000 * kMs;
};

TEST_F(TurnGateTest, WhoNeedNotWaitGoes) {
  EXPECT_EQ(gate_.MayBegin(now_, 0), TurnGate::Answer::kGo);
  gate_.Begin(now_);
  gate_.End(now_ + kMs);
  EXPECT_FALSE(gate_.TakeEnded());  // the controller was not asked
}

TEST_F(TurnGateTest, ABurstWaitsForItsTurn) {
  EXPECT_EQ(gate_.MayBegin(now_, kWait), TurnGate::Answer::kAsk);
  EXPECT_EQ(gate_.MayBegin(now_ + kMs, kWait), TurnGate::Answer::kWait);
  EXPECT_FALSE(gate_.Grant(gate_.burst() - 1));
  EXPECT_TRUE(gate_.Grant(gate_.burst()));
  EXPECT_EQ(gate_.MayBegin(now_ + 2 * kMs, kWait), TurnGate::Answer::kGo);
  gate_.Begin(now_ + 2 * kMs);
  EXPECT_FALSE(gate_.TakeEnded());
  gate_.End(now_ + 12 * kMs);
  EXPECT_TRUE(gate_.TakeEnded());
  EXPECT_FALSE(gate_.TakeEnded());
}

TEST_F(TurnGateTest, OnlyTheFirstOperationOfABurstWaits) {
  ASSERT_EQ(gate_.MayBegin(now_, kWait), TurnGate::Answer::kAsk);
  ASSERT_TRUE(gate_.Grant(gate_.burst()));
  gate_.Begin(now_);
  EXPECT_EQ(gate_.MayBegin(now_ + kMs, kWait), TurnGate::Answer::kGo);
  gate_.End(now_ + 10 * kMs);
  EXPECT_EQ(gate_.MayBegin(now_ + 11 * kMs, kWait), TurnGate::Answer::kGo);
}

TEST_F(TurnGateTest, NobodyWaitsForeverForAController) {
  ASSERT_EQ(gate_.MayBegin(now_, kWait), TurnGate::Answer::kAsk);
  EXPECT_EQ(gate_.wait_until_ns(), now_ + 50 * kMs);
  EXPECT_EQ(gate_.MayBegin(now_ + 49 * kMs, kWait), TurnGate::Answer::kWait);
  EXPECT_EQ(gate_.MayBegin(now_ + 50 * kMs, kWait), TurnGate::Answer::kGo);
  EXPECT_FALSE(gate_.Grant(gate_.burst()));  // too late
  EXPECT_EQ(gate_.MayBegin(now_ + 51 * kMs, kWait), TurnGate::Answer::kGo);
}

TEST_F(TurnGateTest, AnOperationThatDoesNotWaitBeginsTheBurst) {
  ASSERT_EQ(gate_.MayBegin(now_, kWait), TurnGate::Answer::kAsk);
  gate_.Begin(now_ + kMs);  // a send between ranks
  EXPECT_EQ(gate_.MayBegin(now_ + 2 * kMs, kWait), TurnGate::Answer::kGo);
}

}  // namespace
}  // namespace harmonaize::daemon

#include "src/base/wait_estimate.h"

#include <gtest/gtest.h>

namespace harmonaize {
namespace {

constexpr uint64_t kWakeUp = 10'000;

/// Waits that take `waited_ns`, each as the estimate says: looked for, or slept through and then as
/// much longer as waking up takes. Whether the last was looked for.
bool Wait(WaitEstimate* estimate, int times, uint64_t waited_ns) {
  bool looked = false;
  for (int i = 0; i < times; ++i) {
    looked = estimate->BeginWait(kWakeUp) >= waited_ns;
    estimate->EndWait(looked ? waited_ns : waited_ns + kWakeUp, !looked);
  }
  return looked;
}

int Looks(WaitEstimate* estimate, int times, uint64_t waited_ns) {
  int looks = 0;
  for (int i = 0; i < times; ++i) {
    if (estimate->BeginWait(kWakeUp) > 0) ++looks;
    estimate->EndWait(waited_ns, true);
  }
  return looks;
}

TEST(WaitEstimate, LooksForWhatComesSoon) {
  WaitEstimate estimate;
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(Wait(&estimate, 1, 2'000));
  EXPECT_LE(estimate.expected_ns(), 2'000u);
}

TEST(WaitEstimate, SleepsAtOnceWhereWaitsAreLong) {
  WaitEstimate estimate;
  Looks(&estimate, 10, 1'000'000);
  // But for a try now and then.
  EXPECT_LE(Looks(&estimate, 320, 1'000'000), 10);
}

TEST(WaitEstimate, OneLongWaitChangesNothing) {
  WaitEstimate estimate;
  Wait(&estimate, 100, 2'000);
  estimate.EndWait(1'000'000'000, true);
  EXPECT_GT(estimate.BeginWait(kWakeUp), 0u);
}

TEST(WaitEstimate, LooksAgainWhenWaitsAreShortAgain) {
  WaitEstimate estimate;
  Looks(&estimate, 1000, 1'000'000);
  EXPECT_TRUE(Wait(&estimate, 100, 2'000));
}

// Two that wait for each other and both sleep take as long as two wake-ups to answer, and no
// longer.
TEST(WaitEstimate, SleepersDoNotTeachEachOtherToSleep) {
  WaitEstimate estimate;
  Looks(&estimate, 1000, 1'000'000);
  EXPECT_TRUE(Wait(&estimate, 200, 2 * kWakeUp));
}

// Of five the last one takes as long as six wake-ups to answer when all sleep.
TEST(WaitEstimate, ChainsOfSleepersDoNotTeachEachOtherToSleep) {
  WaitEstimate estimate;
  bool looked = false;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t look_ns = estimate.BeginWait(kWakeUp, kSleepersAcrossHosts);
    looked = look_ns >= 6 * kWakeUp;
    const uint64_t slept_ns = i < 100 ? 1'000'000 : 7 * kWakeUp;
    estimate.EndWait(looked && i >= 100 ? 6 * kWakeUp : slept_ns, !looked);
  }
  EXPECT_TRUE(looked);
}

// Between the two thresholds it keeps to what it does.
TEST(WaitEstimate, DoesNotFlap) {
  constexpr uint64_t kBetween = 7 * kWakeUp / 2;
  WaitEstimate looking;
  EXPECT_TRUE(Wait(&looking, 1000, kBetween));
  WaitEstimate sleeping;
  Looks(&sleeping, 1000, 1'000'000);
  int changes = 0;
  bool looked = false;
  for (int i = 0; i < 25; ++i) {
    const bool looks = sleeping.BeginWait(kWakeUp) > 0;
    changes += looks != looked ? 1 : 0;
    looked = looks;
    sleeping.EndWait(kBetween + kWakeUp, true);
  }
  EXPECT_LE(changes, 2) << "a try, and back";
}

TEST(WaitEstimate, LooksNeitherForEverNorNotAtAll) {
  for (const uint64_t wake_up_ns : {uint64_t{0}, uint64_t{1}, UINT64_MAX}) {
    WaitEstimate estimate;
    const uint64_t look_ns = estimate.BeginWait(wake_up_ns);
    EXPECT_GE(look_ns, 1'000u);
    EXPECT_LE(look_ns, 200'000u);
    EXPECT_LE(estimate.BeginWait(wake_up_ns, UINT32_MAX), 600'000u);
    estimate.EndWait(UINT64_MAX, true);
  }
}

}  // namespace
}  // namespace harmonaize

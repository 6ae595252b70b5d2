#include "daemon/multihost/rail_backlogs.h"

#include <gtest/gtest.h>

namespace harmonaize::daemon {
namespace {

constexpr size_t kPartBytes = size_t{64} << 10;

/// Fills a rail, and returns how many parts it took.
int Fill(RailBacklogs* backlogs, size_t rail) {
  int parts = 0;
  for (; backlogs->Admits(rail); ++parts) backlogs->Add(rail, kPartBytes);
  return parts;
}

void Drain(RailBacklogs* backlogs, size_t rail, int parts, uint64_t took_ns) {
  for (int i = 0; i < parts; ++i) backlogs->Remove(rail, kPartBytes, took_ns);
}

TEST(RailBacklogs, ARailTakesAFewPartsAndOthersAreNotConcerned) {
  RailBacklogs backlogs;
  EXPECT_TRUE(backlogs.Admits(7));
  const int parts = Fill(&backlogs, 7);
  EXPECT_GE(parts, 2);
  EXPECT_FALSE(backlogs.Admits(7));
  EXPECT_TRUE(backlogs.Admits(6));
  EXPECT_TRUE(backlogs.Admits(8));
  backlogs.Remove(7, kPartBytes, RailBacklogs::kQuickNs);
  EXPECT_TRUE(backlogs.Admits(7));
}

TEST(RailBacklogs, ASlowRailKeepsTwoParts) {
  RailBacklogs backlogs;
  for (int i = 0; i < 100; ++i) {
    const int parts = Fill(&backlogs, 0);
    Drain(&backlogs, 0, parts, RailBacklogs::kSlowNs + 1);
  }
  EXPECT_EQ(Fill(&backlogs, 0), 2);
}

TEST(RailBacklogs, AQuickRailGetsMoreUpToABound) {
  RailBacklogs backlogs;
  for (int i = 0; i < 1000; ++i) {
    const int parts = Fill(&backlogs, 0);
    ASSERT_LE(parts * kPartBytes, RailBacklogs::kMostAllowance + kPartBytes);
    Drain(&backlogs, 0, parts, 1000);
  }
  EXPECT_EQ(Fill(&backlogs, 0) * kPartBytes, RailBacklogs::kMostAllowance);
}

TEST(RailBacklogs, TheFastestRailIsKnown) {
  RailBacklogs backlogs;
  EXPECT_FALSE(backlogs.Fastest().has_value());
  for (int i = 0; i < 10; ++i) {
    for (const size_t rail : {size_t{1}, size_t{4}}) {
      Drain(&backlogs, rail, Fill(&backlogs, rail), rail == 4 ? 4'000'000 : 9'000'000);
    }
  }
  EXPECT_EQ(backlogs.Fastest(), 4u);
  // It is congested now.
  for (int i = 0; i < 10; ++i) Drain(&backlogs, 4, Fill(&backlogs, 4), 50'000'000);
  EXPECT_EQ(backlogs.Fastest(), 1u);
}

// What has little to send says nothing of how much a rail could have.
TEST(RailBacklogs, OneThatIsNotFullGetsNoMore) {
  RailBacklogs backlogs;
  const int before = Fill(&backlogs, 0);
  Drain(&backlogs, 0, before, RailBacklogs::kSlowNs / 2);
  for (int i = 0; i < 1000; ++i) {
    backlogs.Add(0, kPartBytes);
    backlogs.Remove(0, kPartBytes, 1000);
  }
  EXPECT_EQ(Fill(&backlogs, 0), before);
}

}  // namespace
}  // namespace harmonaize::daemon

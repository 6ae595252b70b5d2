// Levels of congestion, from predicted slowdowns.

#include "daemon/plans/congestion.h"

#include <gtest/gtest.h>

namespace harmonaize::daemon {
namespace {

TEST(Congestion, HasThreeLevels) {
  Congestion congestion;
  EXPECT_EQ(congestion.level(), CongestionLevel::kNone);
  EXPECT_FALSE(congestion.Take(1.1, 1));
  EXPECT_TRUE(congestion.Take(1.3, 2));
  EXPECT_EQ(congestion.level(), CongestionLevel::kMild);
  EXPECT_TRUE(congestion.Take(2.5, 3));
  EXPECT_EQ(congestion.level(), CongestionLevel::kSevere);
  EXPECT_TRUE(congestion.Take(1.0, 4));
  EXPECT_EQ(congestion.level(), CongestionLevel::kNone);
  ASSERT_EQ(congestion.changes().size(), 3u);
  EXPECT_EQ(congestion.changes()[1].level, CongestionLevel::kSevere);
  EXPECT_DOUBLE_EQ(congestion.changes()[1].slowdown, 2.5);
  EXPECT_DOUBLE_EQ(congestion.changes()[1].unix_seconds, 3);
}

TEST(Congestion, WaveringAboutAThresholdIsOneChange) {
  Congestion congestion;
  for (int i = 0; i < 100; ++i) congestion.Take(i % 2 == 0 ? 1.16 : 1.1, i);
  EXPECT_EQ(congestion.changes().size(), 1u);
  for (int i = 0; i < 100; ++i) congestion.Take(i % 2 == 0 ? 2.1 : 1.8, i);
  EXPECT_EQ(congestion.changes().size(), 2u);
  EXPECT_EQ(congestion.level(), CongestionLevel::kSevere);
  congestion.Take(1.6, 200);
  EXPECT_EQ(congestion.level(), CongestionLevel::kMild);
}

TEST(Congestion, RemembersTheLastChanges) {
  Congestion congestion;
  for (int i = 0; i < 1000; ++i) congestion.Take(i % 2 == 0 ? 3 : 1, i);
  EXPECT_EQ(congestion.changes().size(), Congestion::kRemembered);
  EXPECT_DOUBLE_EQ(congestion.changes().back().unix_seconds, 999);
}

TEST(CutSlowdown, BeginsWithALinkThatIsCutAndCostsSomething) {
  using Change = CutSlowdown::Change;
  CutSlowdown cut;
  EXPECT_EQ(cut.Take(false, CongestionLevel::kSevere), Change::kNone) << "congestion alone";
  EXPECT_EQ(cut.Take(true, CongestionLevel::kNone), Change::kNone) << "other ways do as well";
  EXPECT_EQ(cut.Take(true, CongestionLevel::kMild), Change::kDegraded);
  EXPECT_EQ(cut.Take(true, CongestionLevel::kSevere), Change::kNone) << "told once";
  EXPECT_EQ(cut.Take(true, CongestionLevel::kNone), Change::kNone) << "it is cut still";
  EXPECT_EQ(cut.Take(false, CongestionLevel::kMild), Change::kRestored);
  EXPECT_EQ(cut.Take(false, CongestionLevel::kNone), Change::kNone);
}

}  // namespace
}  // namespace harmonaize::daemon

#include "daemon/communicator/deadline_watch.h"

#include <gtest/gtest.h>

namespace harmonaize::daemon {
namespace {

/// Counts operations, each of which takes `seconds`; returns the last change.
std::optional<DeadlineWatch::Change> CountMany(DeadlineWatch* watch, size_t count, double seconds,
                                               double percentile = 99) {
  std::optional<DeadlineWatch::Change> last;
  for (size_t i = 0; i < count; ++i) {
    if (const auto change = watch->Count(seconds, 1e-3, percentile)) last = change;
  }
  return last;
}

TEST(DeadlineWatch, TellsOnceThatADeadlineIsMissedAndOnceThatItIsKeptAgain) {
  DeadlineWatch watch;
  EXPECT_FALSE(CountMany(&watch, 1000, 0.9e-3).has_value());
  const auto missed = CountMany(&watch, 1000, 3e-3);
  ASSERT_TRUE(missed.has_value());
  EXPECT_FALSE(missed->met);
  EXPECT_DOUBLE_EQ(missed->measured_seconds, 3e-3);
  EXPECT_FALSE(CountMany(&watch, 1000, 3e-3).has_value()) << "it is known";
  const auto kept = CountMany(&watch, 1000, 0.5e-3);
  ASSERT_TRUE(kept.has_value());
  EXPECT_TRUE(kept->met);
  EXPECT_EQ(watch.operations(), 4000u);
  EXPECT_EQ(watch.missed(), 2000u);
}

TEST(DeadlineWatch, AsManyMayBeLateAsThePercentileLeaves) {
  for (const double percentile : {90.0, 99.0}) {
    for (const size_t every : {size_t{8}, size_t{16}, size_t{60}, size_t{200}}) {
      DeadlineWatch watch;
      bool told = false;
      for (size_t i = 1; i <= 2048; ++i) {
        told |= watch.Count(i % every == 0 ? 1 : 0, 1e-3, percentile).has_value();
      }
      const double late_percent = 100.0 / static_cast<double>(every);
      EXPECT_EQ(told, late_percent > 100 - percentile) << percentile << " " << every;
    }
  }
}

TEST(DeadlineWatch, OperationsWithOtherDeadlinesCountByTheirOwn) {
  DeadlineWatch watch;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_FALSE(watch.Count(0.9e-3, 1e-3, 99).has_value());
    EXPECT_FALSE(watch.Count(0.9, 1, 99).has_value());
  }
}

}  // namespace
}  // namespace harmonaize::daemon

#include "daemon/host/prediction_check.h"

#include <gtest/gtest.h>

namespace harmonaize::daemon {
namespace {

using Verdict = PredictionCheck::Verdict;

/// Notes this many operations of one kind, and returns the verdict of the last. The others must
/// give none.
Verdict Repeat(PredictionCheck& check, int operations, PredictionCheck::Bounds measured) {
  for (int i = 1; i < operations; ++i) {
    EXPECT_EQ(check.Note({10, 20}, measured), Verdict::kNone) << i;
  }
  return check.Note({10, 20}, measured);
}

TEST(PredictionCheck, BelievesManyQuickOperations) {
  PredictionCheck check;
  EXPECT_EQ(Repeat(check, PredictionCheck::kOperations, {0.001, 0.9}), Verdict::kQuick);
  // A verdict comes once, and then the count begins anew.
  EXPECT_EQ(Repeat(check, PredictionCheck::kOperations, {0.001, 0.9}), Verdict::kQuick);
}

TEST(PredictionCheck, BelievesManySlowOperationsWithoutAnyOther) {
  PredictionCheck check;
  EXPECT_EQ(Repeat(check, PredictionCheck::kOperations, {61, 100}), Verdict::kSlow);
  EXPECT_EQ(Repeat(check, PredictionCheck::kOperations - 1, {61, 100}), Verdict::kNone);
  // This operation was not slow.
  EXPECT_EQ(check.Note({10, 20}, {59, 100}), Verdict::kNone);
  EXPECT_EQ(Repeat(check, PredictionCheck::kOperations, {61, 100}), Verdict::kSlow);
}

TEST(PredictionCheck, TakesNoticeOfNeitherBoundThatSaysNothing) {
  PredictionCheck check;
  // These operations may have been quick, or slow, or neither.
  EXPECT_EQ(Repeat(check, 10 * PredictionCheck::kOperations, {0, 1000}), Verdict::kNone);
  EXPECT_EQ(Repeat(check, 10 * PredictionCheck::kOperations, {1.1, 1.1}), Verdict::kNone);
  EXPECT_EQ(Repeat(check, 10 * PredictionCheck::kOperations, {59, 59}), Verdict::kNone);
}

TEST(PredictionCheck, ForgetsWhatOtherPredictionsWereComparedWith) {
  PredictionCheck check;
  EXPECT_EQ(Repeat(check, PredictionCheck::kOperations - 1, {0.001, 0.9}), Verdict::kNone);
  check.Reset();
  EXPECT_EQ(Repeat(check, PredictionCheck::kOperations, {0.001, 0.9}), Verdict::kQuick);
}

}  // namespace
}  // namespace harmonaize::daemon

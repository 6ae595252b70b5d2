// When plans give way to better ones, and when they stay.

#include "daemon/plans/plan_review.h"

#include <gtest/gtest.h>

#include <vector>

namespace harmonaize::daemon {
namespace {

using Candidate = PlanReview::Candidate;

TEST(PlanReview, AGainHasToHold) {
  PlanReview review(1.1);
  const PlanKey key{Collective::kAllReduce, -1, 9};
  EXPECT_TRUE(review.Decide({{key, 1.0, 0.5}}, 1).empty());
  EXPECT_TRUE(review.pending());
  EXPECT_TRUE(review.Decide({{key, 1.0, 1.0}}, 1.1).empty());
  EXPECT_FALSE(review.pending());
  EXPECT_TRUE(review.Decide({{key, 1.0, 0.5}}, 1.2).empty());
  EXPECT_EQ(review.Decide({{key, 1.0, 0.5}}, 1.3), std::vector<PlanKey>{key});
}

TEST(PlanReview, SmallGainsAreNotWorthIt) {
  PlanReview review(1.1);
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(review.Decide({{{Collective::kAllReduce, -1, 9}, 1.0, 0.95}}, i).empty());
  }
  EXPECT_FALSE(review.pending());
}

// The plan that takes most of the time decides; the others come along if they gain anything.
TEST(PlanReview, WeighsByTime) {
  PlanReview review(1.1);
  const PlanKey large{Collective::kAllReduce, -1, 9};
  const PlanKey small{Collective::kReduce, -1, 2};
  const PlanKey same{Collective::kBroadcast, -1, 2};
  const std::vector<Candidate> hardly = {{large, 1.0, 1.0, 0.95}, {small, 1.0, 0.1, 0.05}};
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(review.Decide(hardly, i).empty());
  const std::vector<Candidate> much = {
      {large, 1.0, 0.5, 0.9}, {small, 1.0, 0.9, 0.05}, {same, 1.0, 1.0, 0.05}};
  review.Decide(much, 10);
  EXPECT_EQ(review.Decide(much, 11), (std::vector<PlanKey>{large, small}));
}

TEST(PlanReview, OfWhatIsNotUsedNothingChanges) {
  PlanReview review(1.1);
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(review.Decide({{{Collective::kAllReduce, -1, 9}, 1.0, 0.5, 0.0}}, i).empty());
    EXPECT_TRUE(review.Decide({}, i).empty());
  }
}

// Links that swing twice a second for a minute.
TEST(PlanReview, SwingsAreFollowedEverMoreRarely) {
  PlanReview review(1.1);
  int changes = 0;
  for (int i = 0; i < 600; ++i) {
    const double now = i * 0.1;
    const bool gains = (i / 5) % 2 == 0;
    if (!review.Decide({{{Collective::kAllReduce, -1, 9}, 1.0, gains ? 0.5 : 1.0}}, now).empty()) {
      ++changes;
      review.NoteChange(now);
    }
  }
  EXPECT_GE(changes, 3);
  EXPECT_LE(changes, 8);
  // And after a long calm at once again.
  review.Decide({{{Collective::kAllReduce, -1, 9}, 1.0, 0.5}}, 1000);
  EXPECT_FALSE(review.Decide({{{Collective::kAllReduce, -1, 9}, 1.0, 0.5}}, 1000.1).empty());
  review.NoteChange(1000.1);
  review.Decide({{{Collective::kAllReduce, -1, 9}, 1.0, 0.5}}, 1000.2);
  EXPECT_TRUE(review.Decide({{{Collective::kAllReduce, -1, 9}, 1.0, 0.5}}, 1000.3).empty());
  EXPECT_FALSE(review.Decide({{{Collective::kAllReduce, -1, 9}, 1.0, 0.5}}, 1000.9).empty());
}

}  // namespace
}  // namespace harmonaize::daemon

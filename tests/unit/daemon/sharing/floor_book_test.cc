// Floors that are promised, refused, kept and missed.

#include "daemon/sharing/floor_book.h"

#include <gtest/gtest.h>

#include <set>

namespace harmonaize::daemon {
namespace {

class FloorBookTest : public ::testing::Test {
 protected:
  void Take(const FloorOwner& owner, double floor, const std::set<int>& edges, double now_seconds,
            double most_of_tenant = 1000) {
    book_.Take(owner, {floor, most_of_tenant}, edges, now_seconds);
  }
  bool Note(const FloorOwner& owner, double floor, double now_seconds) {
    return book_.Note(owner, {floor, 1000}, now_seconds);
  }
  bool Holds(uint32_t tenant, uint64_t owner = 1) const {
    return book_.AnswerFor({tenant, owner}).holds;
  }

  FloorBook book_{[](int edge) { return edge == 9 ? 50.0 : 100.0; }};
};

TEST_F(FloorBookTest, WhoComesFirstIsServedFirst) {
  Take({1, 1}, 40, {0}, 1);
  Take({2, 1}, 41, {0}, 1);
  Take({3, 1}, 40, {0}, 1);
  EXPECT_TRUE(Holds(1));
  EXPECT_FALSE(Holds(2));
  EXPECT_TRUE(Holds(3));
  const FloorBook::Answer refused = book_.AnswerFor({2, 1});
  EXPECT_DOUBLE_EQ(refused.room, 40);
  book_.Settle(2);
  EXPECT_DOUBLE_EQ(book_.AnswerFor({2, 1}).room, 0);
}

TEST_F(FloorBookTest, AFloorMustFitOnAllEdges) {
  Take({1, 1}, 60, {1}, 1);
  Take({2, 1}, 30, {0, 1, 2}, 1);
  EXPECT_FALSE(Holds(2));
  Take({3, 1}, 80, {0, 2}, 1);
  EXPECT_TRUE(Holds(3)) << "what is refused promises nothing elsewhere";
  Take({4, 1}, 41, {9}, 1);
  EXPECT_FALSE(Holds(4)) << "this edge carries less";
  Take({5, 1}, 40, {9}, 1);
  EXPECT_TRUE(Holds(5));
}

TEST_F(FloorBookTest, FurtherEdgesAreAskedForAsWell) {
  Take({1, 1}, 60, {1}, 1);
  Take({2, 1}, 30, {0}, 1);
  EXPECT_TRUE(Holds(2));
  Take({2, 1}, 30, {1}, 1);
  EXPECT_FALSE(Holds(2));
  Take({3, 1}, 80, {0}, 1);
  EXPECT_TRUE(Holds(3));
}

TEST_F(FloorBookTest, WhatIsFreeAgainIsForTheFirstWhoWasRefused) {
  Take({1, 1}, 80, {0}, 1);
  Take({3, 1}, 50, {0}, 1);
  Take({2, 1}, 50, {0}, 1);
  book_.Drop({1, 1});
  book_.Settle(2);
  EXPECT_TRUE(Holds(3));
  EXPECT_FALSE(Holds(2));
}

TEST_F(FloorBookTest, AChangedFloorIsPromisedAnew) {
  Take({1, 1}, 40, {0}, 1);
  EXPECT_TRUE(Note({1, 1}, 40, 2));
  EXPECT_FALSE(Note({1, 1}, 20, 2));
  Take({1, 1}, 20, {0}, 2);
  Take({2, 1}, 60, {0}, 2);
  EXPECT_TRUE(Holds(1));
  EXPECT_TRUE(Holds(2));
}

TEST_F(FloorBookTest, WhoIsSilentForLongIsForgotten) {
  Take({1, 1}, 80, {0}, 1);
  Take({2, 1}, 80, {0}, 1);
  double now_seconds = 1;
  for (; now_seconds < 1 + FloorBook::kKeptSeconds; now_seconds += 1) {
    Note({2, 1}, 80, now_seconds);
    book_.Settle(now_seconds);
    EXPECT_TRUE(Holds(1));
  }
  for (int i = 0; i < 3; ++i) {
    now_seconds += 1;
    Note({2, 1}, 80, now_seconds);
    book_.Settle(now_seconds);
  }
  EXPECT_FALSE(Holds(1));
  EXPECT_TRUE(Holds(2));
  EXPECT_EQ(book_.size(), 1u);
}

TEST_F(FloorBookTest, ATenantFillsOnlyItsOwnPart) {
  for (uint64_t owner = 1; owner <= 10'000; ++owner) Take({1, owner}, 0.001, {0}, 1);
  EXPECT_EQ(book_.size(), static_cast<size_t>(FloorBook::kMostOfTenant));
  EXPECT_FALSE(Holds(1, 10'000));
  Take({2, 1}, 40, {0}, 1);
  EXPECT_TRUE(Holds(2));
  for (uint64_t owner = 1; owner <= 10'000; ++owner) book_.Drop({1, owner});
  EXPECT_EQ(book_.size(), 1u);
  Take({1, 10'000}, 40, {0}, 1);
  EXPECT_TRUE(Holds(1, 10'000));
}

// Whatever owners a tenant has: jobs, and communicators that overrides give another floor.
TEST_F(FloorBookTest, FloorsOfOneTenantPromiseNoMoreThanItsBound) {
  for (uint64_t owner = 1; owner <= 5; ++owner) Take({1, owner}, 10, {0, 1}, 1, 25);
  EXPECT_TRUE(Holds(1, 1));
  EXPECT_TRUE(Holds(1, 2));
  for (uint64_t owner = 3; owner <= 5; ++owner) EXPECT_FALSE(Holds(1, owner));
  EXPECT_TRUE(book_.AnswerFor({1, 3}).tenant_bound);
  EXPECT_DOUBLE_EQ(book_.AnswerFor({1, 3}).room, 5);
  // On each edge by itself, and each tenant by itself.
  Take({1, 6}, 25, {2}, 1, 25);
  EXPECT_TRUE(Holds(1, 6));
  Take({2, 1}, 25, {0, 1}, 1, 25);
  EXPECT_TRUE(Holds(2, 1));
  Take({3, 1}, 70, {0}, 1, 100);
  EXPECT_FALSE(Holds(3, 1));
  EXPECT_FALSE(book_.AnswerFor({3, 1}).tenant_bound);
  // What one owner gives back is the next one's of its tenant.
  book_.Drop({1, 1});
  book_.Settle(2);
  EXPECT_TRUE(Holds(1, 3));
  EXPECT_FALSE(Holds(1, 4));
}

TEST_F(FloorBookTest, ALowerBoundHoldsForFloorsThatWerePromised) {
  for (uint64_t owner = 1; owner <= 2; ++owner) Take({1, owner}, 10, {0}, 1, 20);
  EXPECT_TRUE(Holds(1, 1) && Holds(1, 2));
  EXPECT_FALSE(book_.Note({1, 1}, {10, 15}, 2));
  for (uint64_t owner = 1; owner <= 2; ++owner) Take({1, owner}, 10, {0}, 2, 15);
  EXPECT_NE(Holds(1, 1), Holds(1, 2));
}

// A job that has ended is silent. The next one needs not wait until it is forgotten.
TEST_F(FloorBookTest, WhoIsSilentGivesWayToOthersOfItsTenant) {
  Take({1, 1}, 20, {0}, 1, 20);
  Take({2, 1}, 60, {0}, 1);
  double now_seconds = 1;
  for (int i = 0; i < 15; ++i) {
    now_seconds += 1;
    Take({1, 2}, 20, {0}, now_seconds, 20);
    Take({3, 1}, 20, {0}, now_seconds);
    book_.Settle(now_seconds);
    EXPECT_TRUE(now_seconds > 1 + FloorBook::kGivesWaySeconds || Holds(1, 1));
    EXPECT_TRUE(Holds(2, 1)) << "another tenant gets nothing of it";
    EXPECT_FALSE(Holds(3, 1)) << "another tenant gets nothing of it";
  }
  EXPECT_FALSE(Holds(1, 1));
  EXPECT_TRUE(Holds(1, 2));
}

TEST(FloorWatch, TellsOfWhatLasts) {
  using State = LinkShares::FloorState;
  FloorWatch watch;
  double now_seconds = 10;
  const auto pass = [&](State state, int intervals) {
    for (int i = 0; i < intervals; ++i) {
      now_seconds += 0.1;
      watch.Take({{Sharer{1, 0, 1}, {state, 5}}}, now_seconds);
    }
    const FloorWatch::Missed* const one = watch.Of({1, 0, 1});
    return one != nullptr && one->missed;
  };
  EXPECT_FALSE(pass(State::kMissed, 15));
  EXPECT_FALSE(pass(State::kUnknown, 100));
  EXPECT_FALSE(pass(State::kKept, 30));
  EXPECT_EQ(watch.Of({1, 0, 1}), nullptr);
  EXPECT_TRUE(pass(State::kMissed, 25));
  EXPECT_DOUBLE_EQ(watch.Of({1, 0, 1})->had, 5);
  EXPECT_TRUE(pass(State::kKept, 10));
  EXPECT_TRUE(pass(State::kMissed, 100));
  EXPECT_FALSE(pass(State::kKept, 25));
  watch.Take({}, now_seconds + 1);
  EXPECT_EQ(watch.Of({1, 0, 1}), nullptr);
}

}  // namespace
}  // namespace harmonaize::daemon

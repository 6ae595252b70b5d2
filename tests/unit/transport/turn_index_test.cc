// Whose turn it is among flows, against a search through all of them.

#include "src/transport/queue/turn_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <random>
#include <vector>

namespace harmonaize::transport {
namespace {

class TurnIndexTest : public ::testing::Test {
 protected:
  TurnPlace* Add(const TurnClaim& claim) {
    TurnPlace* const place = &places_.emplace_back();
    index_.Put(place, claim);
    return place;
  }

  std::deque<TurnPlace> places_;
  TurnIndex index_;
};

TEST_F(TurnIndexTest, WhoHasHadLeastGoesFirstIfNothingIsKnown) {
  EXPECT_EQ(index_.Next(), nullptr);
  TurnPlace* const one = Add({.number = 1, .start = 20, .leads_from = 20});
  TurnPlace* const two = Add({.number = 2, .start = 10, .leads_from = 10});
  EXPECT_EQ(index_.Next(), two);
  EXPECT_EQ(index_.least_start(), 10);
  index_.Put(two, {.number = 2, .start = 20, .leads_from = 20});
  EXPECT_EQ(index_.Next(), one) << "the lower number";
  index_.Remove(one);
  EXPECT_EQ(index_.Next(), two);
  index_.Remove(one);
  index_.Remove(two);
  EXPECT_TRUE(index_.empty());
}

TEST_F(TurnIndexTest, WhoHasLeastLeftGoesFirstWithinItsLead) {
  TurnPlace* const last = Add({.number = 1, .left = 1000, .start = 0, .leads_from = -50});
  TurnPlace* const near = Add({.number = 2, .left = 10, .start = 50, .leads_from = 0});
  EXPECT_EQ(index_.Next(), near);
  index_.Put(near, {.number = 2, .left = 10, .start = 51, .leads_from = 1});
  EXPECT_EQ(index_.Next(), last);
}

TEST_F(TurnIndexTest, BytesLeftAreAlikeWithinAQuarterWhereverTheyLie) {
  for (double left = 1; left < 1e12; left *= 1.37) {
    TurnPlace* const low = Add({.number = 1, .left = left * 1.2});
    TurnPlace* const high = Add({.number = 2, .left = left});
    EXPECT_EQ(index_.Next(), low) << left;
    index_.Put(low, {.number = 1, .left = left * 1.5});
    EXPECT_EQ(index_.Next(), high) << left;
    index_.Remove(low);
    index_.Remove(high);
  }
}

/// Checks a choice against a search through all flows.
void ExpectRight(const TurnClaim& chosen, const std::vector<TurnPlace*>& places) {
  double start = INFINITY;
  for (const TurnPlace* place : places) start = std::min(start, place->claim().start);
  ASSERT_LE(chosen.leads_from, start);
  double least = INFINITY;
  for (const TurnPlace* place : places) {
    if (place->claim().leads_from <= start) least = std::min(least, place->claim().left);
  }
  ASSERT_LE(chosen.left, 1.51 * least) << "not alike";
  for (const TurnPlace* place : places) {
    const TurnClaim& claim = place->claim();
    if (claim.leads_from > start || 0.75 * claim.left > least) continue;
    ASSERT_LE(chosen.number, claim.number) << "an alike one with a lower number";
  }
}

TEST_F(TurnIndexTest, FindsWhatASearchThroughAllFinds) {
  std::mt19937_64 random(1);
  const auto draw = [&](double most) {
    return std::uniform_real_distribution<double>(0, most)(random);
  };
  for (uint64_t number = 0; number < 60; ++number) places_.emplace_back();
  std::vector<TurnPlace*> in;
  for (int step = 0; step < 20'000; ++step) {
    TurnPlace* const place = &places_[random() % places_.size()];
    const auto found = std::find(in.begin(), in.end(), place);
    if (found != in.end() && random() % 3 == 0) {
      index_.Remove(place);
      in.erase(found);
    } else {
      const double left = random() % 20 == 0 ? 0 : std::exp(draw(12));
      const double start = std::floor(draw(100));
      index_.Put(place, {static_cast<uint64_t>(random() % 100), left, start,
                         start - (left > 0 ? draw(60) : 0)});
      if (found == in.end()) in.push_back(place);
    }
    if (in.empty()) continue;
    ASSERT_NO_FATAL_FAILURE(ExpectRight(index_.Next()->claim(), in)) << step;
  }
}

TEST_F(TurnIndexTest, SettingBackChangesNoOrder) {
  TurnPlace* const one = Add({.number = 1, .left = 10, .start = 1000, .leads_from = 900});
  TurnPlace* const two = Add({.number = 2, .left = 1000, .start = 950, .leads_from = 850});
  index_.SetBack(950);
  EXPECT_EQ(two->claim().start, 0);
  EXPECT_EQ(index_.Next(), one);
  index_.Put(one, {.number = 1, .left = 10, .start = 150, .leads_from = 50});
  EXPECT_EQ(index_.Next(), two);
}

// Ten thousand flows may take ten more steps each time than ten, and not a thousand times as many.
TEST_F(TurnIndexTest, StepsGrowWithTheLogarithmOfFlows) {
  constexpr uint64_t kTurns = 1000;
  std::mt19937_64 random(1);
  const auto looks_per_turn = [&](uint64_t flows) {
    TurnIndex index;
    std::deque<TurnPlace> places;
    for (uint64_t number = 0; number < flows; ++number) {
      index.Put(&places.emplace_back(),
                {number, 1e6 + static_cast<double>(random() % 1000), 0, -9});
    }
    const uint64_t before = index.looks();
    for (uint64_t turn = 0; turn < kTurns; ++turn) {
      TurnPlace* const next = index.Next();
      TurnClaim claim = next->claim();
      claim.start += 1;
      claim.leads_from += 1;
      claim.left = 1e5 + static_cast<double>(random() % 1'000'000);
      index.Put(next, claim);
    }
    const uint64_t looks = index.looks() - before;
    for (TurnPlace& place : places) index.Remove(&place);
    return looks / kTurns;
  };
  EXPECT_LT(looks_per_turn(10'000), 10 * looks_per_turn(10));
}

}  // namespace
}  // namespace harmonaize::transport

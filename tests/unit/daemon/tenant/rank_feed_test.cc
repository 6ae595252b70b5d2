#include "daemon/tenant/rank_feed.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "daemon/tenant/member.h"

namespace harmonaize::daemon {
namespace {

/// The parts of some ranks in their seventh collective.
class RankFeedTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kSequence = 6;

  PostedOperation* AddRank(bool copies_along) {
    slots_.push_back(std::make_unique<MemberSlot>());
    members_.push_back(std::make_unique<Member>());
    members_.back()->slot = slots_.back().get();
    members_.back()->header = &header_;
    operations_.push_back(std::make_unique<PostedOperation>());
    PostedOperation* const part = operations_.back().get();
    part->member = members_.back().get();
    part->descriptor.sequence = kSequence;
    part->descriptor.flags = static_cast<uint8_t>(
        copies_along ? kLastOfPosition | kSendWindow | kReceiveWindow : kLastOfPosition);
    parts_.push_back(part);
    return part;
  }
  static SliceProgress& ProgressOf(const PostedOperation* part) {
    return part->member->slot->lanes[kCollectiveLane];
  }
  static uint64_t Carried(const PostedOperation* part) {
    return SlicesOf(kSequence, ProgressOf(part).carried.completed.load());
  }
  static void Fill(const PostedOperation* part, uint64_t slices) {
    ProgressOf(part).filled.store(SliceCount(kSequence, slices));
  }

  RankFeed feed_;
  SessionHeader header_ = {};
  std::vector<std::unique_ptr<MemberSlot>> slots_;
  std::vector<std::unique_ptr<Member>> members_;
  std::vector<std::unique_ptr<PostedOperation>> operations_;
  std::vector<PostedOperation*> parts_;
};

TEST_F(RankFeedTest, WithoutRanksThatCopyThereIsNone) {
  AddRank(false);
  feed_.Assign(parts_);
  EXPECT_TRUE(feed_.empty());
}

TEST_F(RankFeedTest, RanksLearnHowTheOperationIsCut) {
  const PostedOperation* const rank = AddRank(true);
  feed_.Assign(parts_);
  ASSERT_FALSE(feed_.empty());
  EXPECT_LT(ProgressOf(rank).carried.completed.load(), SliceCount(kSequence, 0));
  feed_.Begin({.piece_elements = 1000, .slice_elements = 64, .slices = 16, .slots = 4});
  EXPECT_EQ(ProgressOf(rank).carried.completed.load(), SliceCount(kSequence, 0));
  EXPECT_EQ(ProgressOf(rank).piece_elements.load(), 1000u);
  EXPECT_EQ(ProgressOf(rank).slice_elements.load(), 64u);
  EXPECT_EQ(ProgressOf(rank).slices.load(), 16u);
}

TEST_F(RankFeedTest, TheSlowestRankSaysWhatIsFilled) {
  const PostedOperation* const first = AddRank(true);
  AddRank(false);
  const PostedOperation* const second = AddRank(true);
  feed_.Assign(parts_);
  feed_.Begin({.piece_elements = 1000, .slice_elements = 64, .slices = 16, .slots = 4});
  EXPECT_EQ(feed_.Filled(), 0u);
  Fill(first, 9);
  EXPECT_EQ(feed_.Filled(), 0u);
  Fill(second, 4);
  EXPECT_EQ(feed_.Filled(), 4u);
}

TEST_F(RankFeedTest, WhatWasLeftOfTheOneBeforeDoesNotCount) {
  const PostedOperation* const rank = AddRank(true);
  ProgressOf(rank).filled.store(SliceCount(kSequence - 1, 16));
  feed_.Assign(parts_);
  feed_.Begin({.piece_elements = 1000, .slice_elements = 64, .slices = 16, .slots = 4});
  EXPECT_EQ(feed_.Filled(), 0u);
}

TEST_F(RankFeedTest, NamesTheRanksThatStillFill) {
  const PostedOperation* const first = AddRank(true);
  const PostedOperation* const second = AddRank(true);
  first->member->rank = 3;
  second->member->rank = 5;
  feed_.Assign(parts_);
  EXPECT_TRUE(feed_.Filling().empty()) << "it has not begun";
  feed_.Begin({.piece_elements = 1000, .slice_elements = 64, .slices = 16, .slots = 4});
  EXPECT_EQ(feed_.Filling(), (std::vector<int>{3, 5}));
  Fill(first, 4);
  EXPECT_EQ(feed_.Filling(), (std::vector<int>{5})) << "the window of the other one is full";
  Fill(second, 4);
  EXPECT_TRUE(feed_.Filling().empty());
  feed_.Carried(1);
  EXPECT_TRUE(feed_.Filling().empty()) << "they are woken when two slots are carried";
  feed_.Carried(2);
  Fill(first, 6);
  EXPECT_EQ(feed_.Filling(), (std::vector<int>{5}));
  feed_.Carried(13);
  Fill(first, 16);
  Fill(second, 15);
  EXPECT_EQ(feed_.Filling(), (std::vector<int>{5}));
  Fill(second, 16);
  EXPECT_TRUE(feed_.Filling().empty());
}

TEST_F(RankFeedTest, ARankWithOneSlotStillFillsOnceItIsCarried) {
  const PostedOperation* const rank = AddRank(true);
  feed_.Assign(parts_);
  feed_.Begin({.piece_elements = 1000, .slice_elements = 64, .slices = 2, .slots = 1});
  Fill(rank, 1);
  EXPECT_TRUE(feed_.Filling().empty());
  feed_.Carried(1);
  EXPECT_FALSE(feed_.Filling().empty());
}

// A count above the number of slices is for the execution to cut off.
TEST_F(RankFeedTest, AnythingMayBeWritten) {
  const PostedOperation* const rank = AddRank(true);
  feed_.Assign(parts_);
  feed_.Begin({.piece_elements = 1000, .slice_elements = 64, .slices = 16, .slots = 4});
  Fill(rank, kAllSlices);
  EXPECT_GE(feed_.Filled(), 16u);
  // Sends and receives begin in any order, so what an operation of a larger number has left does
  // not count either.
  ProgressOf(rank).filled.store(SliceCount(kSequence + 1, 3));
  EXPECT_EQ(feed_.Filled(), 0u);
  ProgressOf(rank).filled.store(std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(feed_.Filled(), 0u);
  ProgressOf(rank).filled.store(0);
  EXPECT_EQ(feed_.Filled(), 0u);
}

TEST_F(RankFeedTest, RanksAreToldWhatIsCarriedAndOfTheEnd) {
  const PostedOperation* const copies = AddRank(true);
  const PostedOperation* const others = AddRank(false);
  feed_.Assign(parts_);
  feed_.Begin({.piece_elements = 1000, .slice_elements = 64, .slices = 16, .slots = 4});
  feed_.Carried(3);
  EXPECT_EQ(Carried(copies), 3u);
  EndSliceProgress(*copies);
  EndSliceProgress(*others);
  EXPECT_EQ(Carried(copies), kAllSlices);
  EXPECT_EQ(ProgressOf(others).carried.completed.load(), 0u);
}

}  // namespace
}  // namespace harmonaize::daemon

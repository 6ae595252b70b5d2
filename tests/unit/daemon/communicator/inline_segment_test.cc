#include "daemon/communicator/inline_segment.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "src/memory/shared_memory.h"

namespace harmonaize::daemon {
namespace {

constexpr int kRanks = 3;

class InlineSegmentTest : public ::testing::Test {
 protected:
  InlineSegmentTest() {
    for (size_t i = 0; i < kCollectiveCount; ++i) {
      limits_.registered[i] = 100 + i;
      limits_.heap[i] = 200 + i;
    }
    limits_.stream = 300;
    Result<std::unique_ptr<InlineSegment>> made =
        InlineSegment::Create(kRanks, limits_, Machine{.last_level_bytes = 1 << 20});
    EXPECT_TRUE(made.ok()) << made.status().message();
    segment_ = std::move(*made);
  }

  void AttachAll() {
    for (int rank = 0; rank < kRanks; ++rank) segment_->Attach(rank, &slot(rank));
  }
  InlineSlot& slot(int rank) { return slots_[static_cast<size_t>(rank)]; }

  InlineLimits limits_;
  std::unique_ptr<InlineSegment> segment_;
  std::array<InlineSlot, kRanks> slots_ = {};
};

TEST_F(InlineSegmentTest, TellsEachRankWhatGoesInline) {
  // An earlier rank of the slot has left these there.
  slot(1).operations.store(7);
  slot(1).gone.store(3);
  AttachAll();
  for (int rank = 0; rank < kRanks; ++rank) {
    const InlineSlot& told = slot(rank);
    EXPECT_EQ(told.open.load(), 1u);
    EXPECT_EQ(told.last_level_cache_bytes, 1u << 20);
    for (size_t i = 0; i < kCollectiveCount; ++i) {
      EXPECT_EQ(told.registered[i].load(), limits_.registered[i]);
      EXPECT_EQ(told.heap[i].load(), limits_.heap[i]);
    }
    EXPECT_EQ(told.stream.load(), 300u);
    EXPECT_EQ(told.gone.load(), 0u);
    EXPECT_EQ(told.operations.load(), 0u);
  }
}

TEST_F(InlineSegmentTest, ClosesForAllAndForThoseThatComeLater) {
  segment_->Attach(0, &slot(0));
  segment_->Close();
  segment_->Attach(1, &slot(1));
  EXPECT_EQ(slot(0).open.load(), 0u);
  EXPECT_EQ(slot(1).open.load(), 0u);
}

TEST_F(InlineSegmentTest, LimitsMayChangeAndMayLetNothingGoInline) {
  segment_->Attach(0, &slot(0));
  limits_.none = true;
  segment_->SetLimits(limits_);
  segment_->Attach(1, &slot(1));
  EXPECT_EQ(slot(0).open.load(), 0u);
  EXPECT_EQ(slot(1).open.load(), 0u);
  limits_.none = false;
  limits_.heap[0] = 7;
  segment_->SetLimits(limits_);
  for (const int rank : {0, 1}) {
    EXPECT_EQ(slot(rank).open.load(), 1u);
    EXPECT_EQ(slot(rank).heap[0].load(), 7u);
  }
  segment_->Close();
  segment_->SetLimits(limits_);
  EXPECT_EQ(slot(0).open.load(), 0u) << "what is closed stays closed";
}

TEST_F(InlineSegmentTest, TellsTheOthersOfARegionThatIsGone) {
  AttachAll();
  segment_->TellGone(1, 5);
  segment_->TellGone(1, 9);
  EXPECT_EQ(slot(1).gone.load(), 0u);
  for (const int rank : {0, 2}) {
    EXPECT_EQ(slot(rank).gone.load(), 2u);
    EXPECT_EQ(slot(rank).gone_regions[0].load(), GoneRegion(1, 5));
    EXPECT_EQ(slot(rank).gone_regions[1].load(), GoneRegion(1, 9));
  }
}

TEST_F(InlineSegmentTest, ASlotIsLeftAloneOnceItsRankHasLeft) {
  AttachAll();
  slot(0).operations.store(10);
  slot(1).operations.store(12);
  slot(0).bytes.store(1000);
  slot(1).bytes.store(500);
  EXPECT_EQ(segment_->operations(), 12u);
  EXPECT_EQ(segment_->bytes_moved(), 1500u);
  segment_->Detach(1);
  EXPECT_EQ(segment_->operations(), 10u);
  EXPECT_EQ(segment_->bytes_moved(), 1000u);
  segment_->Close();
  segment_->TellGone(0, 1);
  EXPECT_EQ(slot(1).open.load(), 1u);
  EXPECT_EQ(slot(1).gone.load(), 0u);
}

TEST_F(InlineSegmentTest, KeepsItsDescriptorForRanksThatHaveNotBeenGivenIt) {
  for (int i = 0; i < kRanks; ++i) {
    EXPECT_TRUE(MapForeign(segment_->descriptor(), segment_->bytes(), HugePageFiles::kRefuse,
                           Access::kReadAndWrite)
                    .ok());
    segment_->NoteHanded();
  }
  EXPECT_EQ(segment_->descriptor(), -1);
}

}  // namespace
}  // namespace harmonaize::daemon

// How many slices of which operation: SliceCount and SlicesOf.

#include <gtest/gtest.h>

#include "src/ipc/session_segment.h"

namespace harmonaize {
namespace {

TEST(SliceCount, SaysHowManySlicesOfItsOperation) {
  for (const uint64_t sequence : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32}) {
    for (const uint64_t slices : {uint64_t{0}, uint64_t{1}, uint64_t{1000}, kAllSlices}) {
      EXPECT_EQ(SlicesOf(sequence, SliceCount(sequence, slices)), slices);
    }
  }
  EXPECT_EQ(SlicesOf(5, SliceCount(5, kAllSlices + 7)), kAllSlices);
}

TEST(SliceCount, OfOneBeforeSaysNothing) {
  EXPECT_EQ(SlicesOf(0, 0), 0u) << "of a slot that is new";
  EXPECT_EQ(SlicesOf(7, SliceCount(6, kAllSlices)), 0u);
}

TEST(SliceCount, OfOneAfterSaysThatItIsOver) {
  EXPECT_EQ(SlicesOf(6, SliceCount(7, 0)), kAllSlices);
  EXPECT_EQ(SlicesOf(6, UINT64_MAX), kAllSlices);
}

// They are waited for as a stream's positions.
TEST(SliceCount, Grows) {
  EXPECT_LT(SliceCount(3, 4), SliceCount(3, 5));
  EXPECT_LT(SliceCount(3, kAllSlices), SliceCount(4, 0));
}

}  // namespace
}  // namespace harmonaize

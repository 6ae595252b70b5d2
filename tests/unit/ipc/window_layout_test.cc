#include "src/ipc/window_layout.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace harmonaize {
namespace {

constexpr uint8_t kBoth = kSendWindow | kReceiveWindow;

TEST(WindowLayout, BuffersLieBehindEachOtherOrAsNcclHasThemInPlace) {
  const BufferBlocks gather = BlocksOf(Collective::kAllGather, 4, 2, 0);
  const WindowLayout apart = LayoutOf(gather, 2, 3, kBoth);
  EXPECT_EQ(apart.blocks, 5u * 3);
  EXPECT_EQ(apart.send, 0u);
  EXPECT_EQ(apart.receive, 3u);
  const WindowLayout one = LayoutOf(gather, 2, 3, kBoth | kOneWindow);
  EXPECT_EQ(one.blocks, 4u * 3);
  EXPECT_EQ(one.send, 2u * 3);
  EXPECT_EQ(one.receive, 0u);
  const WindowLayout scatter =
      LayoutOf(BlocksOf(Collective::kReduceScatter, 4, 3, 0), 3, 1, kBoth | kOneWindow);
  EXPECT_EQ(scatter.blocks, 4u);
  EXPECT_EQ(scatter.receive, 3u);
}

TEST(WindowLayout, OnlyWindowsTakeRoom) {
  const BufferBlocks units = BlocksOf(Collective::kAllReduce, 4, 0, 0);
  EXPECT_EQ(LayoutOf(units, 0, 1, kSendWindow).blocks, 1u);
  EXPECT_EQ(LayoutOf(units, 0, 1, kSendWindow | kOneWindow).blocks, 1u);
  EXPECT_EQ(LayoutOf(units, 0, 1, kBoth | kOneWindow).blocks, 1u);
  EXPECT_EQ(LayoutOf(units, 0, 1, kBoth).blocks, 2u);
  EXPECT_EQ(LayoutOf(BlocksOf(Collective::kReduce, 4, 1, 0), 1, 1, kBoth).blocks, 1u);
}

TEST(WindowLayout, SizesBeyondAllNumbersSaturate) {
  const WindowLayout layout{.blocks = uint64_t{1} << 40};
  EXPECT_EQ(layout.SlotBytes(uint64_t{1} << 40, 8), UINT64_MAX / 2);
  EXPECT_EQ(layout.SlotBytes(0, 8), 0u);
  EXPECT_EQ((WindowLayout{.blocks = 1}.SlotBytes(3, 4)), 64u);
}

TEST(WindowCut, AllSlicesAreTheWholeBufferAndBlocksOfASlotLieApart) {
  for (const uint64_t unit : {1, 7, 64, 1000}) {
    for (const uint64_t pieces : {1, 3, 8}) {
      for (const uint64_t slice : {1, 5, 100, 5000}) {
        constexpr uint64_t kUnits = 3;
        WindowCut cut{.unit_bytes = unit,
                      .piece_bytes = (unit + pieces - 1) / pieces,
                      .pieces = pieces,
                      .slice_bytes = slice,
                      .slots = 2,
                      .slot_bytes = (kUnits * pieces + 1) * slice};
        const uint64_t slices = (cut.piece_bytes + slice - 1) / slice;
        std::vector<int> seen(kUnits * unit, 0);
        for (uint64_t number = 0; number < slices; ++number) {
          std::set<uint64_t> taken;
          cut.ForEachBlock(number, kUnits, 1, [&](uint64_t own, uint64_t place, uint64_t bytes) {
            ASSERT_LE(bytes, slice);
            for (uint64_t i = 0; i < bytes; ++i) {
              ++seen[own + i];
              ASSERT_TRUE(taken.insert(place + i).second);
              ASSERT_EQ((place + i) / cut.slot_bytes, number % 2);
            }
          });
        }
        EXPECT_EQ(seen, std::vector<int>(kUnits * unit, 1))
            << unit << " " << pieces << " " << slice;
      }
    }
  }
}

}  // namespace
}  // namespace harmonaize

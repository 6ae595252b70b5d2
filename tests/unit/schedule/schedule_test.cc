#include "src/schedule/ir/schedule.h"

#include <gtest/gtest.h>

#include "src/schedule/algorithms/one_host.h"
#include "src/schedule/check/check.h"
#include "tests/unit/schedule/programs.h"

namespace harmonaize {
namespace {

TEST(ExtentOfTest, PiecesCoverEveryUnitWithoutGaps) {
  for (const uint64_t count : {0u, 1u, 2u, 7u, 8u, 9u, 1000u}) {
    for (int pieces = 1; pieces <= 9; ++pieces) {
      uint64_t next = 0;
      for (int index = 0; index < 3 * pieces; ++index) {
        const BlockExtent extent = ExtentOf(count, pieces, index);
        EXPECT_EQ(extent.offset, next) << count << " " << pieces << " " << index;
        EXPECT_LE(extent.length, LongestBlock(count, pieces));
        next += extent.length;
      }
      EXPECT_EQ(next, 3 * count);
    }
  }
}

TEST(ExtentOfTest, OnlyTheLastPiecesAreShorter) {
  EXPECT_EQ(ExtentOf(10, 4, 0), (BlockExtent{0, 3}));
  EXPECT_EQ(ExtentOf(10, 4, 2), (BlockExtent{6, 3}));
  EXPECT_EQ(ExtentOf(10, 4, 3), (BlockExtent{9, 1}));
  EXPECT_EQ(ExtentOf(2, 4, 1), (BlockExtent{1, 1}));
  EXPECT_EQ(ExtentOf(2, 4, 3), (BlockExtent{2, 0}));
  EXPECT_EQ(ExtentOf(10, 4, 5), (BlockExtent{13, 3}));
}

TEST(ExtentOfTest, CountsBeyondFourBillion) {
  const uint64_t count = (uint64_t{1} << 40) + 1;
  EXPECT_EQ(ExtentOf(count, 2, 3), (BlockExtent{count + (count + 1) / 2, count / 2}));
}

TEST(BlocksTest, FollowTheCollective) {
  Schedule schedule = OneHost(Collective::kReduceScatter, 3, -1, false);
  schedule.pieces = 2;
  EXPECT_EQ(InputBlocks(schedule, 1), 6);
  EXPECT_EQ(OutputBlocks(schedule, 1), 2);
  const Schedule reduce = OneHost(Collective::kReduce, 3, 1, false);
  EXPECT_EQ(OutputBlocks(reduce, 0), 0);
  EXPECT_EQ(OutputBlocks(reduce, 1), 1);
  const Schedule send = OneHost(Collective::kSend, 2, -1, false);
  EXPECT_EQ(InputBlocks(send, 0), 1);
  EXPECT_EQ(InputBlocks(send, 1), 0);
  EXPECT_EQ(OutputBlocks(send, 0), 0);
  EXPECT_EQ(OutputBlocks(send, 1), 1);
}

std::optional<Block> Joined(Collective collective, int pieces, int rank, int index) {
  Schedule schedule = OneHost(collective, 4, 2, true);
  schedule.pieces = pieces;
  return InPlaceInput(schedule, OutputBlock(rank, index));
}

TEST(InPlaceInputTest, IsWhatNcclCallsInPlace) {
  EXPECT_EQ(Joined(Collective::kAllReduce, 3, 1, 2), InputBlock(1, 2));
  EXPECT_EQ(Joined(Collective::kReduce, 3, 2, 1), InputBlock(2, 1));
  EXPECT_EQ(Joined(Collective::kBroadcast, 1, 2, 0), InputBlock(2, 0));
  EXPECT_EQ(Joined(Collective::kBroadcast, 1, 1, 0), std::nullopt);
  EXPECT_EQ(Joined(Collective::kAllToAll, 2, 1, 7), InputBlock(1, 7));
  EXPECT_EQ(Joined(Collective::kAllGather, 2, 1, 3), InputBlock(1, 1));
  EXPECT_EQ(Joined(Collective::kAllGather, 2, 1, 4), std::nullopt);
  EXPECT_EQ(Joined(Collective::kAllGather, 2, 1, 1), std::nullopt);
  EXPECT_EQ(Joined(Collective::kReduceScatter, 2, 3, 1), InputBlock(3, 7));
  EXPECT_EQ(Joined(Collective::kGather, 1, 2, 2), InputBlock(2, 0));
  EXPECT_EQ(Joined(Collective::kGather, 1, 2, 0), std::nullopt);
  EXPECT_EQ(Joined(Collective::kScatter, 1, 2, 0), InputBlock(2, 2));
  EXPECT_EQ(Joined(Collective::kScatter, 1, 1, 0), std::nullopt);
  EXPECT_EQ(Joined(Collective::kSend, 1, 1, 0), std::nullopt);
}

TEST(DescribeTest, OneStepALine) {
  EXPECT_EQ(Describe(OneHost(Collective::kReduce, 3, 1, true)),
            "one-host Reduce of 3 ranks on 1 hosts, root 1, 1 pieces, in place or not\n"
            "host 0: ranks 0 1 2; scratch blocks: 0\n"
            "    0  reduce input 0[0] input 1[0] input 2[0] -> output 1[0]\n");
  const std::string ring = Describe(RingAllReduce({2, 1}, false));
  EXPECT_NE(ring.find("host 1: ranks 2; scratch blocks: 2\n"), std::string::npos) << ring;
  EXPECT_NE(ring.find("send scratch[0] to host 1 after 0\n"), std::string::npos) << ring;
  EXPECT_NE(ring.find("receive-reduce from host 0 input 2[0] -> output 2[0]\n"), std::string::npos)
      << ring;
}

TEST(TrafficTest, OneHostReadsAndWritesEveryBlockOnce) {
  const Traffic traffic = CountTraffic(OneHost(Collective::kAllReduce, 5, -1, false));
  ASSERT_EQ(traffic.hosts.size(), 1u);
  EXPECT_EQ(traffic.hosts[0], (HostTraffic{0, 5, 5, 0, 0}));
}

TEST(TrafficTest, RingSendsTheLeast) {
  // Of 4 pieces every host sends 2 * 3, which is the lower bound of an all-reduce.
  for (const HostTraffic& host : CountTraffic(RingAllReduce({1, 2, 1, 1}, false)).hosts) {
    EXPECT_EQ(host.sent, 6u);
    EXPECT_EQ(host.received, 6u);
  }
}

}  // namespace
}  // namespace harmonaize

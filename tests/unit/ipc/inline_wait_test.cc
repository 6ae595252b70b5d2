// What a rank tells the daemon of a wait on the inline path, which is a stranger's word.

#include "src/ipc/inline_wait.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <thread>

#include "src/ipc/inline_segment.h"

namespace harmonaize::testing {
namespace {

constexpr int kRanks = 3;

InlineWait Reduction(uint64_t ticket) {
  return {.collective = Collective::kReduce,
          .type = DataType::kFloat32,
          .op = ReduceOperator::kMax,
          .root = 2,
          .count = 3 * ticket,
          .ticket = ticket,
          .for_ranks = 0b101};
}

TEST(InlineWait, IsReadAsItWasTold) {
  auto slot = std::make_unique<InlineWaitSlot>();
  EXPECT_FALSE(ReadInlineWait(*slot, 1, kRanks).has_value());
  TellInlineWait(Reduction(77), 5, slot.get());
  const auto told = ReadInlineWait(*slot, 1, kRanks);
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->number, 5u);
  EXPECT_EQ(told->wait.collective, Collective::kReduce);
  EXPECT_EQ(told->wait.type, DataType::kFloat32);
  EXPECT_EQ(told->wait.op, ReduceOperator::kMax);
  EXPECT_EQ(told->wait.root, 2);
  EXPECT_EQ(told->wait.count, 231u);
  EXPECT_EQ(told->wait.ticket, 77u);
  EXPECT_EQ(told->wait.for_ranks, 0b101u);
  TakeBackInlineWait(slot.get());
  EXPECT_FALSE(ReadInlineWait(*slot, 1, kRanks).has_value());
}

TEST(InlineWait, IsForOtherRanksOfTheCommunicatorAlone) {
  auto slot = std::make_unique<InlineWaitSlot>();
  InlineWait wait = Reduction(1);
  wait.for_ranks = ~0u;
  TellInlineWait(wait, 1, slot.get());
  EXPECT_EQ(ReadInlineWait(*slot, 1, kRanks)->wait.for_ranks, 0b101u);
  EXPECT_EQ(ReadInlineWait(*slot, 31, kMaxInlineRanks)->wait.for_ranks, 0x7fffffffu);
}

TEST(InlineWait, ThatNoHonestClientTellsIsNone) {
  auto slot = std::make_unique<InlineWaitSlot>();
  for (const int32_t root : {-1, kRanks, INT32_MIN, INT32_MAX}) {
    InlineWait wait = Reduction(1);
    wait.root = root;
    TellInlineWait(wait, 1, slot.get());
    EXPECT_FALSE(ReadInlineWait(*slot, 1, kRanks).has_value()) << root;
    wait.collective = Collective::kSend;
    TellInlineWait(wait, 1, slot.get());
    EXPECT_FALSE(ReadInlineWait(*slot, 1, kRanks).has_value()) << root;
    wait.collective = Collective::kAllReduce;
    TellInlineWait(wait, 1, slot.get());
    EXPECT_TRUE(ReadInlineWait(*slot, 1, kRanks).has_value()) << "an all-reduce has no root";
  }
  std::mt19937_64 random(11);
  size_t read = 0;
  for (int round = 0; round < 100'000; ++round) {
    slot->number.store(static_cast<uint32_t>(random()) | 1);
    slot->for_ranks.store(static_cast<uint32_t>(random()));
    slot->ticket.store(random());
    slot->count.store(random());
    // Half of them nearly good.
    slot->call.store(static_cast<uint32_t>(random()) & (random() % 2 == 0 ? 0x0f0f0fu : ~0u));
    slot->root.store(static_cast<int32_t>(random()) % 5);
    const auto told = ReadInlineWait(*slot, 1, kRanks);
    if (!told.has_value()) continue;
    ++read;
    ASSERT_LT(static_cast<int>(told->wait.collective), kCollectiveCount);
    ASSERT_LT(static_cast<int>(told->wait.type), kDataTypeCount);
    ASSERT_LT(static_cast<int>(told->wait.op), kReduceOperatorCount);
    ASSERT_EQ(told->wait.for_ranks & ~0b101u, 0u);
  }
  EXPECT_GT(read, 100u);
}

TEST(InlineWait, IsNeverReadInHalves) {
  auto slot = std::make_unique<InlineWaitSlot>();
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (uint32_t number = 1; !stop.load(); ++number) {
      TellInlineWait(Reduction(number), number, slot.get());
      TakeBackInlineWait(slot.get());
    }
  });
  size_t read = 0;
  // The writer may get no processor for a while.
  for (int look = 0; (look < 50'000'000 || read == 0) && read < 10'000;
       look = std::min(look + 1, 50'000'000)) {
    const auto told = ReadInlineWait(*slot, 1, kRanks);
    if (!told.has_value()) continue;
    ++read;
    ASSERT_EQ(told->wait.ticket, told->number);
    ASSERT_EQ(told->wait.count, 3 * told->wait.ticket);
  }
  stop.store(true);
  writer.join();
  EXPECT_GT(read, 0u);
}

}  // namespace
}  // namespace harmonaize::testing

#include "src/checkpoint/box_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/support/box_elements.h"

namespace harmonaize::checkpoint {
namespace {

using testing::ElementsIn;

Box ABoxIn(const std::vector<int64_t>& whole, std::mt19937* random) {
  Box box;
  for (const int64_t length : whole) {
    const auto draw = [&](int64_t least, int64_t most) {
      return std::uniform_int_distribution<int64_t>(least, most)(*random);
    };
    // Whole dimensions are frequent, as they are with real shards.
    const int64_t taken = draw(0, 2) == 0 ? length : draw(1, length);
    box.shape.push_back(taken);
    box.offset.push_back(draw(0, length - taken));
  }
  return box;
}

TEST(BoxCopy, EveryCommonElementIsCopiedOnceAndNoOther) {
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    std::vector<int64_t> whole(std::uniform_int_distribution<size_t>(0, 4)(random));
    for (int64_t& length : whole) length = std::uniform_int_distribution<int64_t>(1, 5)(random);
    const Box from = ABoxIn(whole, &random);
    const Box to = ABoxIn(whole, &random);
    const std::vector<int64_t> source = ElementsIn(whole, from);
    const std::vector<int64_t> expected = ElementsIn(whole, to);
    std::vector<int64_t> written(expected.size(), -1);
    const std::optional<Box> common = Intersection(from, to);
    uint64_t copied = 0;
    if (common.has_value()) {
      const Status status = ForEachRun(from, to, *common, 8, [&](const ByteRun& run) {
        EXPECT_EQ(run.bytes % 8, 0u);
        for (uint64_t i = 0; i < run.bytes / 8; ++i) {
          written.at(run.to / 8 + i) = source.at(run.from / 8 + i);
          ++copied;
        }
        return Status::Ok();
      });
      ASSERT_TRUE(status.ok());
      ASSERT_EQ(copied, ElementsOf(common->shape));
    }
    uint64_t wanted = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      const bool is_there = std::find(source.begin(), source.end(), expected[i]) != source.end();
      ASSERT_EQ(written[i], is_there ? expected[i] : -1) << round;
      wanted += is_there ? 1 : 0;
    }
    ASSERT_EQ(copied, wanted) << round;
  }
}

TEST(BoxCopy, WhatIsWholeInBothIsOneRun) {
  const Box rows = {.offset = {2, 0, 0}, .shape = {3, 4, 5}};
  const Box all = {.offset = {0, 0, 0}, .shape = {8, 4, 5}};
  int runs = 0;
  const Status status = ForEachRun(rows, all, *Intersection(rows, all), 2, [&](const ByteRun& run) {
    ++runs;
    EXPECT_EQ(run.from, 0u);
    EXPECT_EQ(run.to, 2u * 20 * 2);
    EXPECT_EQ(run.bytes, 3u * 20 * 2);
    return Status::Ok();
  });
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(runs, 1);
}

TEST(BoxCopy, AFailureEndsIt) {
  const Box one = {.offset = {0, 0}, .shape = {4, 2}};
  const Box other = {.offset = {0, 1}, .shape = {4, 1}};
  int runs = 0;
  const Status status = ForEachRun(one, other, *Intersection(one, other), 1, [&](const ByteRun&) {
    return ++runs == 2 ? InvalidArgument("no") : Status::Ok();
  });
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(runs, 2);
}

}  // namespace
}  // namespace harmonaize::checkpoint

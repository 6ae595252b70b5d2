#include "src/checkpoint/shard_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "tests/support/box_elements.h"

namespace harmonaize::checkpoint {
namespace {

/// Shards of one tensor of int32, in which each element is its own index. It counts what is read.
class CountedSource final : public ShardSource {
 public:
  CountedSource(std::vector<int64_t> whole, const std::vector<Box>& boxes)
      : whole_(std::move(whole)) {
    for (const Box& box : boxes) {
      shards_.push_back(
          {.name = "t", .type = ElementType::kI32, .global_shape = whole_, .box = box});
      data_.push_back(ElementsIn(box));
    }
  }

  const std::vector<Shard>& shards() const override { return shards_; }
  Status Read(size_t shard, uint64_t at, std::span<std::byte> into) override {
    ++reads;
    EXPECT_LE(at + into.size(), data_[shard].size() * sizeof(int32_t));
    std::memcpy(into.data(), reinterpret_cast<const std::byte*>(data_[shard].data()) + at,
                into.size());
    return Status::Ok();
  }

  std::vector<int32_t> ElementsIn(const Box& box) const {
    const std::vector<int64_t> elements = testing::ElementsIn(whole_, box);
    return {elements.begin(), elements.end()};
  }

  int reads = 0;

 private:
  std::vector<int64_t> whole_;
  std::vector<Shard> shards_;
  std::vector<std::vector<int32_t>> data_;
};

Shard Wanted(const std::vector<int64_t>& whole, Box box) {
  return {.name = "t", .type = ElementType::kI32, .global_shape = whole, .box = std::move(box)};
}

/// Returns the boxes of so many ranks that divide one dimension as evenly as they can.
std::vector<Box> Divided(const std::vector<int64_t>& whole, size_t dimension, int64_t ranks) {
  std::vector<Box> boxes;
  const int64_t length = whole[dimension];
  for (int64_t rank = 0; rank < ranks; ++rank) {
    Box box = {.offset = std::vector<int64_t>(whole.size(), 0), .shape = whole};
    box.offset[dimension] = rank * length / ranks;
    box.shape[dimension] = (rank + 1) * length / ranks - box.offset[dimension];
    boxes.push_back(std::move(box));
  }
  return boxes;
}

TEST(ShardReader, AnyDivisionIsReadUnderAnyOther) {
  const std::vector<int64_t> whole = {12, 7, 10};
  for (size_t saved_by = 0; saved_by < 3; ++saved_by) {
    CountedSource source(whole, Divided(whole, saved_by, 4));
    Result<ShardReader> reader = ShardReader::Of(&source);
    ASSERT_TRUE(reader.ok());
    for (size_t read_by = 0; read_by < 3; ++read_by) {
      for (const int64_t ranks : {1, 2, 3, 6}) {
        for (const Box& box : Divided(whole, read_by, ranks)) {
          std::vector<int32_t> elements(ElementsOf(box.shape), -1);
          const Status status =
              reader->Read(Wanted(whole, box), reinterpret_cast<std::byte*>(elements.data()));
          ASSERT_TRUE(status.ok()) << status.ToString();
          ASSERT_EQ(elements, source.ElementsIn(box));
        }
      }
    }
  }
}

TEST(ShardReader, BoxesThatOverlapAtRandomCoverOrAreMissed) {
  std::mt19937 random(5);
  const std::vector<int64_t> whole = {6, 5, 4};
  int covered = 0;
  for (int round = 0; round < 1000; ++round) {
    std::vector<Box> boxes;
    const auto a_box = [&] {
      Box box;
      for (const int64_t length : whole) {
        const int64_t taken = std::uniform_int_distribution<int64_t>(1, length)(random);
        box.shape.push_back(taken);
        box.offset.push_back(std::uniform_int_distribution<int64_t>(0, length - taken)(random));
      }
      return box;
    };
    for (int i = 0; i < 8; ++i) boxes.push_back(a_box());
    CountedSource source(whole, boxes);
    const Box wanted = a_box();
    std::vector<int32_t> there;
    for (const Box& box : boxes) {
      for (const int32_t element : source.ElementsIn(box)) there.push_back(element);
    }
    bool is_there = true;
    for (const int32_t element : source.ElementsIn(wanted)) {
      is_there = is_there && std::find(there.begin(), there.end(), element) != there.end();
    }
    Result<ShardReader> reader = ShardReader::Of(&source);
    ASSERT_TRUE(reader.ok());
    std::vector<int32_t> elements(ElementsOf(wanted.shape), -1);
    const Status status =
        reader->Read(Wanted(whole, wanted), reinterpret_cast<std::byte*>(elements.data()));
    ASSERT_EQ(status.ok(), is_there) << status.ToString();
    if (!is_there) continue;
    ++covered;
    ASSERT_EQ(elements, source.ElementsIn(wanted));
  }
  EXPECT_GT(covered, 100);
  EXPECT_LT(covered, 900);
}

TEST(ShardReader, WhatAllRanksHaveIsReadOnce) {
  const std::vector<int64_t> whole = {64, 64};
  const Box all = {.offset = {0, 0}, .shape = whole};
  CountedSource source(whole, {all, all, all, all});
  Result<ShardReader> reader = ShardReader::Of(&source);
  ASSERT_TRUE(reader.ok());
  std::vector<int32_t> elements(64 * 64);
  ASSERT_TRUE(reader->Read(Wanted(whole, all), reinterpret_cast<std::byte*>(elements.data())).ok());
  EXPECT_EQ(source.reads, 1);
}

TEST(ShardReader, ManyShortRunsAreReadTogether) {
  const std::vector<int64_t> whole = {4096, 4};
  CountedSource source(whole, {{.offset = {0, 0}, .shape = whole}});
  Result<ShardReader> reader = ShardReader::Of(&source);
  ASSERT_TRUE(reader.ok());
  std::vector<int32_t> column(4096);
  const Box wanted = {.offset = {0, 2}, .shape = {4096, 1}};
  ASSERT_TRUE(
      reader->Read(Wanted(whole, wanted), reinterpret_cast<std::byte*>(column.data())).ok());
  EXPECT_EQ(column[4095], 4095 * 4 + 2);
  EXPECT_EQ(source.reads, 1);
}

TEST(ShardReader, WhatIsNotThereIsToldByName) {
  const std::vector<int64_t> whole = {4, 4};
  CountedSource source(whole, {{.offset = {0, 0}, .shape = {2, 4}}});
  Result<ShardReader> reader = ShardReader::Of(&source);
  ASSERT_TRUE(reader.ok());
  std::vector<int32_t> elements(16);
  auto* const into = reinterpret_cast<std::byte*>(elements.data());
  Shard wanted = Wanted(whole, {.offset = {0, 0}, .shape = whole});
  EXPECT_NE(reader->Read(wanted, into).message().find("from [2, 0] over [2, 4]"),
            std::string::npos);
  wanted.type = ElementType::kF32;
  EXPECT_NE(reader->Read(wanted, into).message().find("I32[4, 4]"), std::string::npos);
  wanted.name = "other";
  EXPECT_NE(reader->Read(wanted, into).message().find("no 'other'"), std::string::npos);
}

TEST(ShardReader, RanksThatDisagreeAreToldAtOnce) {
  class Two final : public ShardSource {
   public:
    const std::vector<Shard>& shards() const override { return shards_; }
    Status Read(size_t, uint64_t, std::span<std::byte>) override { return Status::Ok(); }

   private:
    std::vector<Shard> shards_ = {{.name = "a", .type = ElementType::kF32},
                                  {.name = "a", .type = ElementType::kF64}};
  };
  Two two;
  EXPECT_FALSE(ShardReader::Of(&two).ok());
}

}  // namespace
}  // namespace harmonaize::checkpoint

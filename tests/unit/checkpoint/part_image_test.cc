#include "src/checkpoint/part_image.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

namespace harmonaize::checkpoint {
namespace {

std::vector<Shard> SomeShards() {
  return {{.name = "weight",
           .type = ElementType::kF32,
           .global_shape = {128, 64},
           .box = {.offset = {32, 0}, .shape = {32, 64}}},
          {.name = "bias",
           .type = ElementType::kBf16,
           .global_shape = {64},
           .box = {.offset = {0}, .shape = {64}}},
          {.name = "step", .type = ElementType::kI64},
          {.name = "rng",
           .type = ElementType::kU8,
           .is_object = true,
           .global_shape = {7},
           .box = {.offset = {0}, .shape = {7}}}};
}

constexpr PartIdentity kIdentity = {.step = 1200,
                                    .save = 77,
                                    .rank = 1,
                                    .ranks = 4,
                                    .is_kept = true,
                                    .saved_ns = 1'700'000'000'123'456'789};

std::vector<std::byte> AnImage() {
  const Result<PartLayout> layout = PartLayout::Of(SomeShards());
  EXPECT_TRUE(layout.ok());
  std::vector<std::byte> image(layout->bytes);
  layout->Write(kIdentity, image.data());
  return image;
}

Result<PartTable> ReadFrom(const std::vector<std::byte>& image) {
  return ReadPartTable(image.size(), [&](uint64_t at, std::span<std::byte> into) {
    if (at > image.size() || into.size() > image.size() - at) return InvalidArgument("too short");
    if (!into.empty()) std::memcpy(into.data(), image.data() + at, into.size());
    return Status::Ok();
  });
}

TEST(PartImage, IsReadAsItWasWritten) {
  const std::vector<std::byte> image = AnImage();
  const Result<PartTable> table = ReadFrom(image);
  ASSERT_TRUE(table.ok()) << table.status().ToString();
  EXPECT_EQ(table->identity, kIdentity);
  EXPECT_EQ(table->bytes, image.size());
  EXPECT_EQ(table->shards, PartLayout::Of(SomeShards())->shards);
}

TEST(PartImage, LargeDataBeginsAtAPage) {
  const Result<PartLayout> layout = PartLayout::Of(SomeShards());
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->shards[0].at % kPageBytes, 0u);
  uint64_t end = layout->data_at;
  for (const PlacedShard& placed : layout->shards) {
    EXPECT_GE(placed.at, end);
    EXPECT_EQ(placed.at % kLineBytes, 0u);
    end = placed.at + BytesOf(placed.shard);
  }
  EXPECT_EQ(end, layout->bytes);
}

TEST(PartImage, HasRoomForNoShardAtAll) {
  const Result<PartLayout> layout = PartLayout::Of({});
  ASSERT_TRUE(layout.ok());
  std::vector<std::byte> image(layout->bytes);
  layout->Write(kIdentity, image.data());
  const Result<PartTable> table = ReadFrom(image);
  ASSERT_TRUE(table.ok());
  EXPECT_TRUE(table->shards.empty());
}

TEST(PartImage, TruncatedOnesAreRefused) {
  const std::vector<std::byte> image = AnImage();
  for (const size_t bytes : {size_t{0}, size_t{64}, size_t{kPartHeaderBytes}, image.size() - 1}) {
    EXPECT_FALSE(ReadFrom({image.begin(), image.begin() + static_cast<ptrdiff_t>(bytes)}).ok());
  }
}

/// Whatever a hostile process writes into the memory, what is read lies within the image.
TEST(PartImage, DamagedOnesNeverLeadOutOfTheImage) {
  const std::vector<std::byte> image = AnImage();
  const uint64_t data_at = PartLayout::Of(SomeShards())->data_at;
  std::mt19937 random(11);
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> damaged = image;
    // Most rounds damage the header, since the table has a checksum.
    const uint64_t most = round % 4 == 0 ? data_at : kPartHeaderBytes;
    for (int i = 0; i <= round % 3; ++i) {
      damaged[random() % most] = static_cast<std::byte>(random());
    }
    const Result<PartTable> table = ReadFrom(damaged);
    if (!table.ok()) {
      ++refused;
      continue;
    }
    for (const PlacedShard& placed : table->shards) {
      ASSERT_LE(placed.at, image.size());
      ASSERT_LE(BytesOf(placed.shard), image.size() - placed.at);
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(PartImage, ATableWithASoundChecksumIsCheckedAllTheSame) {
  std::vector<Shard> shards = SomeShards();
  shards[0].box.offset = {120, 0};
  EXPECT_FALSE(PartLayout::Of(shards).ok());
  // The layout is made to lie: its table is that of another, larger shard.
  shards = SomeShards();
  PartLayout layout = *PartLayout::Of(shards);
  shards[0].global_shape = {1 << 20, 64};
  shards[0].box = {.offset = {0, 0}, .shape = {1 << 20, 64}};
  layout.table = PartLayout::Of(shards)->table;
  std::vector<std::byte> image(layout.bytes);
  layout.Write(kIdentity, image.data());
  EXPECT_FALSE(ReadFrom(image).ok());
}

}  // namespace
}  // namespace harmonaize::checkpoint

#include "src/checkpoint/shard.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace harmonaize::checkpoint {
namespace {

Shard AShard() {
  return {.name = "layers.0.weight",
          .type = ElementType::kBf16,
          .global_shape = {6, 4},
          .box = {.offset = {2, 0}, .shape = {3, 4}}};
}

TEST(Shard, BytesAreThoseOfItsOwnElements) {
  EXPECT_TRUE(CheckShard(AShard()).ok());
  EXPECT_EQ(BytesOf(AShard()), 3u * 4 * 2);
  const Shard scalar = {.name = "step", .type = ElementType::kI64};
  EXPECT_TRUE(CheckShard(scalar).ok());
  EXPECT_EQ(BytesOf(scalar), 8u);
}

TEST(Shard, NamesThatCouldLeadOutOfAFolderAreRefused) {
  for (const std::string name : {"a/b", "/etc/passwd", "..", "a..b", "../x", ""}) {
    EXPECT_FALSE(CheckName(name).ok()) << name;
  }
  EXPECT_FALSE(CheckName(std::string("a\0b", 3)).ok());
  EXPECT_FALSE(CheckName("line\nbreak").ok());
  EXPECT_FALSE(CheckName(std::string(kMostNameBytes + 1, 'x')).ok());
  EXPECT_TRUE(CheckName(std::string(kMostNameBytes, 'x')).ok());
}

TEST(Shard, NamesAreUtf8) {
  EXPECT_TRUE(CheckName("gewicht.äöü.重み.🎛").ok());
  for (const std::string name : {"\xff", "\xc3", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80",
                                 "\xf4\x90\x80\x80", "\xf0\x80\x80\xaf", "a\x80"}) {
    EXPECT_FALSE(CheckName(name).ok()) << name;
  }
}

TEST(Shard, ABoxLiesInItsTensor) {
  Shard shard = AShard();
  shard.box.offset = {4, 0};
  EXPECT_FALSE(CheckShard(shard).ok()) << "it reaches beyond the end";
  shard.box.offset = {-1, 0};
  EXPECT_FALSE(CheckShard(shard).ok());
  shard.box.offset = {INT64_MAX, 0};
  shard.box.shape = {INT64_MAX, 4};
  EXPECT_FALSE(CheckShard(shard).ok()) << "the sum overflows";
  shard = AShard();
  shard.box.shape = {3};
  EXPECT_FALSE(CheckShard(shard).ok());
  shard = AShard();
  shard.box.shape = {0, 4};
  EXPECT_TRUE(CheckShard(shard).ok()) << "a rank may have nothing of a tensor";
}

TEST(Shard, SizesDoNotOverflow) {
  Shard shard = {.name = "large",
                 .type = ElementType::kF64,
                 .global_shape = {int64_t{1} << 40, int64_t{1} << 40},
                 .box = {.offset = {0, 0}, .shape = {0, 0}}};
  EXPECT_FALSE(CheckShard(shard).ok());
  shard.global_shape = {0, int64_t{1} << 40, int64_t{1} << 40};
  shard.box = {.offset = {0, 0, 0}, .shape = {0, 0, 0}};
  EXPECT_FALSE(CheckShard(shard).ok()) << "no dimension of 0 hides the others";
  shard.type = static_cast<ElementType>(kElementTypeCount);
  EXPECT_FALSE(CheckShard(shard).ok());
}

TEST(Shard, AnObjectIsOneWholeRow) {
  Shard object = {.name = "rng",
                  .type = ElementType::kU8,
                  .is_object = true,
                  .global_shape = {5},
                  .box = {.offset = {0}, .shape = {5}}};
  EXPECT_TRUE(CheckShard(object).ok());
  object.box.shape = {4};
  EXPECT_FALSE(CheckShard(object).ok());
}

TEST(ElementType, NamesAndTypesBelongTogether) {
  for (int i = 0; i < kElementTypeCount; ++i) {
    const auto type = static_cast<ElementType>(i);
    EXPECT_EQ(ElementTypeOf(NameOf(type)), type);
    EXPECT_GT(BytesOf(type), 0u);
  }
  EXPECT_EQ(ElementTypeOf("F128"), std::nullopt);
  EXPECT_EQ(ElementTypeOf(""), std::nullopt);
}

}  // namespace
}  // namespace harmonaize::checkpoint

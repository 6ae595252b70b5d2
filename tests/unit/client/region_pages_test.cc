#include "src/client/memory/region_pages.h"

#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include "tests/support/reserved_huge_pages.h"

namespace harmonaize {
namespace {

constexpr uint64_t kMebibyte = uint64_t{1} << 20;

bool OnHugePageFile(const RegionPages& pages) {
  struct statfs file_system;
  EXPECT_EQ(fstatfs(pages.memory.descriptor.get(), &file_system), 0);
  return file_system.f_type == HUGETLBFS_MAGIC;
}

TEST(RegionPages, RoundingMustWasteLittle) {
  constexpr uint64_t kPage = 2 * kMebibyte;
  EXPECT_TRUE(DeservesHugePages(kPage, kPage));
  EXPECT_TRUE(DeservesHugePages(kPage - 4096, kPage));
  EXPECT_TRUE(DeservesHugePages(10 * kPage, kPage));
  EXPECT_TRUE(DeservesHugePages(8 * kPage + 1, kPage));
  EXPECT_FALSE(DeservesHugePages(7 * kPage + 1, kPage));
  EXPECT_FALSE(DeservesHugePages(kPage / 2, kPage));
  EXPECT_FALSE(DeservesHugePages(1, kPage));
  EXPECT_FALSE(DeservesHugePages(0, kPage));
  EXPECT_FALSE(DeservesHugePages(kPage, 0));
  EXPECT_TRUE(DeservesHugePages(~uint64_t{0}, kPage));
}

TEST(RegionPages, TakesReservedPages) {
  testing::ReservedHugePages pool(8);
  if (!pool.available()) GTEST_SKIP() << "this host has no huge pages to give";
  const uint64_t bytes = 8 * pool.page_bytes();
  for (const HugePages wanted : {HugePages::kAuto, HugePages::kRequired}) {
    const Result<RegionPages> pages = AllocateRegionPages(bytes - 4096, wanted);
    ASSERT_TRUE(pages.ok()) << pages.status().ToString();
    EXPECT_TRUE(OnHugePageFile(*pages));
    EXPECT_EQ(pages->memory.mapping.size(), bytes);
    EXPECT_NE(pages->description.find("reserved"), std::string::npos) << pages->description;
    EXPECT_EQ(pages->memory.mapping.data()[bytes - 1], std::byte{0});
  }
  const Result<RegionPages> off = AllocateRegionPages(bytes, HugePages::kOff);
  ASSERT_TRUE(off.ok());
  EXPECT_FALSE(OnHugePageFile(*off));
  const Result<RegionPages> small = AllocateRegionPages(5000, HugePages::kRequired);
  ASSERT_TRUE(small.ok());
  EXPECT_FALSE(OnHugePageFile(*small));
  EXPECT_EQ(small->memory.mapping.size(), 8192u);
}

TEST(RegionPages, GoesWithoutOrSaysWhatIsMissing) {
  testing::ReservedHugePages pool(0);
  if (pool.page_bytes() == 0) GTEST_SKIP() << "the kernel has no huge pages";
  pool.Exhaust();
  const uint64_t bytes = 4 * pool.page_bytes();
  const Result<RegionPages> pages = AllocateRegionPages(bytes, HugePages::kAuto);
  ASSERT_TRUE(pages.ok()) << pages.status().ToString();
  EXPECT_FALSE(OnHugePageFile(*pages));
  EXPECT_NE(pages->description.find("no reserved ones"), std::string::npos) << pages->description;
  const Result<RegionPages> refused = AllocateRegionPages(bytes, HugePages::kRequired);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), Code::kSystemError);
  EXPECT_NE(refused.status().message().find("vm.nr_hugepages"), std::string::npos);
}

TEST(RegionPages, RefusesImpossibleSizes) {
  for (const HugePages wanted : {HugePages::kAuto, HugePages::kOff, HugePages::kRequired}) {
    EXPECT_EQ(AllocateRegionPages(~uint64_t{0}, wanted).status().code(), Code::kInvalidArgument);
  }
}

}  // namespace
}  // namespace harmonaize

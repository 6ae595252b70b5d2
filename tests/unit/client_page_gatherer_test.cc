#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstddef>
#include <fstream>
#include <string>
#include <vector>

#include "src/client/page_gatherer.h"

namespace harmonaize {
namespace {

constexpr uint64_t kHuge = PageGatherer::kHugePageBytes;

class PageGathererTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string modes;
    std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"), modes);
    if (modes.empty() || modes.find("[never]") != std::string::npos) {
      GTEST_SKIP() << "this host gives no huge pages";
    }
  }

  void Use(const void* address, uint64_t bytes, uint32_t times) {
    for (uint32_t i = 0; i < times; ++i) pages_.NoteUse(address, bytes);
  }

  PageGatherer pages_;
};

TEST_F(PageGathererTest, WaitsUntilABufferHasBeenUsedAFewTimes) {
  const std::vector<std::byte> buffer(4 * kHuge);
  Use(buffer.data(), buffer.size(), PageGatherer::kUsesBefore);
  EXPECT_EQ(pages_.gathered_bytes(), 0u);
  Use(buffer.data(), buffer.size(), 1);
  // What does not fill a huge page at either end stays out.
  EXPECT_GE(pages_.gathered_bytes(), 3 * kHuge);
  EXPECT_LE(pages_.gathered_bytes(), 4 * kHuge);
}

TEST_F(PageGathererTest, DoesItOnce) {
  const std::vector<std::byte> buffer(4 * kHuge);
  Use(buffer.data(), buffer.size(), PageGatherer::kUsesBefore + 1);
  const uint64_t gathered = pages_.gathered_bytes();
  Use(buffer.data(), buffer.size(), 1000);
  EXPECT_EQ(pages_.gathered_bytes(), gathered);
}

TEST_F(PageGathererTest, DoesAHugeBufferInParts) {
  constexpr uint64_t kBytes = 3 * PageGatherer::kBytesAtOnce;
  void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  Use(memory, kBytes, PageGatherer::kUsesBefore);
  uint64_t before = 0;
  for (int use = 0; use < 3; ++use) {
    Use(memory, kBytes, 1);
    EXPECT_LE(pages_.gathered_bytes() - before, PageGatherer::kBytesAtOnce);
    before = pages_.gathered_bytes();
  }
  EXPECT_GE(before, kBytes - kHuge);
  munmap(memory, kBytes);
}

TEST_F(PageGathererTest, LeavesSmallBuffersAlone) {
  const std::vector<std::byte> buffer(kHuge - 1);
  Use(buffer.data(), buffer.size(), 100);
  EXPECT_EQ(pages_.gathered_bytes(), 0u);
}

TEST_F(PageGathererTest, ChangesNothingThatTheProgramSees) {
  std::vector<uint32_t> buffer(3 * kHuge / sizeof(uint32_t) + 12345);
  for (size_t i = 0; i < buffer.size(); ++i) buffer[i] = static_cast<uint32_t>(i * 2654435761u);
  Use(buffer.data(), buffer.size() * sizeof(uint32_t), PageGatherer::kUsesBefore + 1);
  for (size_t i = 0; i < buffer.size(); ++i) {
    ASSERT_EQ(buffer[i], static_cast<uint32_t>(i * 2654435761u));
  }
}

TEST_F(PageGathererTest, SurvivesMemoryThatIsNotThere) {
  void* const memory = mmap(nullptr, 4 * kHuge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  munmap(memory, 4 * kHuge);
  Use(memory, 4 * kHuge, PageGatherer::kUsesBefore + 1);
  // Nor with lengths that no buffer has.
  Use(reinterpret_cast<void*>(UINT64_MAX - kHuge), UINT64_MAX / 2, 1);
}

}  // namespace
}  // namespace harmonaize

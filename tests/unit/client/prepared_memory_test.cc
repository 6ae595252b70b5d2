#include "src/client/checkpoint/prepared_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

namespace harmonaize {
namespace {

/// Returns how many pages of a mapping are there.
size_t PagesOf(const Mapping& mapping) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> there((mapping.size() + page - 1) / page);
  EXPECT_EQ(mincore(mapping.data(), mapping.size(), there.data()), 0);
  return static_cast<size_t>(
      std::count_if(there.begin(), there.end(), [](unsigned char one) { return (one & 1) != 0; }));
}

TEST(PreparedMemory, HasItsPagesAfterAWhile) {
  PreparedMemory prepared(20 << 20);
  EXPECT_EQ(prepared.bytes(), 20u << 20);
  // The thread has the lowest priority. Kernels before 5.14 make no pages.
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  std::optional<SharedMemory> memory = prepared.Take();
  ASSERT_TRUE(memory.has_value());
  const size_t pages = PagesOf(memory->mapping);
  EXPECT_TRUE(pages == 0 || pages >= 1024) << pages;
  EXPECT_EQ(memory->mapping.data()[0], std::byte{0});
  EXPECT_FALSE(prepared.Take().has_value()) << "it is taken once";
}

TEST(PreparedMemory, IsTakenOrGivenUpAtAnyMoment) {
  for (int i = 0; i < 50; ++i) {
    PreparedMemory prepared(64 << 20);
    if (i % 2 == 0) continue;
    std::optional<SharedMemory> memory = prepared.Take();
    ASSERT_TRUE(memory.has_value());
    memory->mapping.data()[memory->mapping.size() - 1] = std::byte{1};
  }
}

TEST(PreparedMemory, IsNoneWhereThereIsNoMemory) {
  PreparedMemory prepared(uint64_t{1} << 62);
  EXPECT_FALSE(prepared.Take().has_value());
}

}  // namespace
}  // namespace harmonaize

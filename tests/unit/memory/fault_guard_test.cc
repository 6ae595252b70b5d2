#include "src/memory/fault_guard.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "src/memory/shared_memory.h"
#include "tests/support/reserved_huge_pages.h"

namespace harmonaize {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kBytes = 64 * kPage;

class FaultGuardTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(FaultGuard::Install().ok()); }
};

/// As bytes of which every access is made.
volatile char* View(const Mapping& mapping) {
  return reinterpret_cast<volatile char*>(mapping.data());
}

/// Memory that its owner can take away: a file that is not sealed.
struct ShrinkingMemory {
  ShrinkingMemory() : descriptor(memfd_create("shrinking", MFD_CLOEXEC)) {
    EXPECT_EQ(ftruncate(descriptor.get(), kBytes), 0);
    void* const first =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0);
    EXPECT_NE(first, MAP_FAILED);
    mapping = Mapping(static_cast<std::byte*>(first), kBytes);
  }
  void Shrink() const { EXPECT_EQ(ftruncate(descriptor.get(), kPage), 0); }
  volatile char& at(size_t offset) const { return View(mapping)[offset]; }

  FileDescriptor descriptor;
  Mapping mapping;
};

TEST_F(FaultGuardTest, AnAccessGoesOnWithZeros) {
  const ShrinkingMemory memory;
  const ShrinkingMemory other;
  FaultGuard guard(memory.mapping.data(), kBytes);
  const FaultGuard other_guard(other.mapping.data(), kBytes);
  memory.at(kBytes - 1) = 7;
  EXPECT_FALSE(guard.lost());
  memory.Shrink();
  EXPECT_EQ(memory.at(kBytes - 1), 0);
  EXPECT_TRUE(guard.lost());
  memory.at(5 * kPage) = 9;
  EXPECT_EQ(memory.at(5 * kPage), 9);
  EXPECT_FALSE(other_guard.lost());
  FaultGuard moved = std::move(guard);
  EXPECT_TRUE(moved.lost());
}

TEST_F(FaultGuardTest, ANewGuardKnowsNothingOfTheOldOne) {
  for (int round = 0; round < 3; ++round) {
    const ShrinkingMemory memory;
    const FaultGuard guard(memory.mapping.data(), kBytes);
    EXPECT_FALSE(guard.lost());
    memory.Shrink();
    memory.at(kBytes - 1) = 1;
    EXPECT_TRUE(guard.lost());
  }
}

TEST_F(FaultGuardTest, ManyThreadsFaultAtOnce) {
  std::vector<ShrinkingMemory> memories(16);
  std::vector<FaultGuard> guards;
  for (const ShrinkingMemory& memory : memories) {
    guards.emplace_back(memory.mapping.data(), kBytes);
    memory.Shrink();
  }
  std::atomic<int> waiting{4};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      // Others come and go meanwhile.
      waiting.fetch_sub(1);
      while (waiting.load() > 0) {
      }
      for (const ShrinkingMemory& memory : memories) {
        const ShrinkingMemory own;
        const FaultGuard guard(own.mapping.data(), kBytes);
        EXPECT_EQ(memory.at(kBytes - 1), 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const FaultGuard& guard : guards) EXPECT_TRUE(guard.lost());
}

/// How a child that makes the access ends.
int StatusOfChild(const std::function<void()>& access) {
  const pid_t child = fork();
  if (child == 0) {
    access();
    _exit(0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

TEST_F(FaultGuardTest, WithoutAGuardTheProcessEnds) {
  const ShrinkingMemory memory;
  memory.Shrink();
  // A sanitizer's handler, which was there before, ends the process in its own way.
  EXPECT_NE(StatusOfChild([&] { memory.at(kBytes - 1) = 1; }), 0);
  { const FaultGuard gone(memory.mapping.data(), kBytes); }
  EXPECT_NE(StatusOfChild([&] { memory.at(kBytes - 1) = 1; }), 0);
  const FaultGuard guard(memory.mapping.data(), kBytes);
  EXPECT_EQ(StatusOfChild([&] { memory.at(kBytes - 1) = 1; }), 0);
}

// What the guard is for: a page of a huge page file that is not there, and a pool with nothing to
// fill it.
TEST_F(FaultGuardTest, HolesInHugePages) {
  testing::ReservedHugePages pool(4);
  if (!pool.available()) GTEST_SKIP() << "this host has no huge pages to give";
  const uint64_t bytes = 3 * pool.page_bytes();
  Result<SharedMemory> tenant = CreateHugePageMemory("tenant", bytes);
  ASSERT_TRUE(tenant.ok()) << tenant.status().ToString();
  Result<Mapping> ours =
      MapForeign(tenant->descriptor.get(), bytes, HugePageFiles::kAccept, Access::kReadAndWrite);
  ASSERT_TRUE(ours.ok()) << ours.status().ToString();
  tenant->mapping.data()[0] = std::byte{1};
  tenant->mapping.data()[bytes - 1] = std::byte{3};
  volatile char* const data = View(*ours);

  // Nothing can happen to pages that are there.
  pool.Exhaust();
  EXPECT_EQ(data[bytes - 1], 3);
  ASSERT_EQ(fallocate(tenant->descriptor.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                      static_cast<off_t>(pool.page_bytes()), static_cast<off_t>(pool.page_bytes())),
            0);
  pool.Exhaust();
  const uint64_t hole = pool.page_bytes() + 5;
  EXPECT_NE(StatusOfChild([&] { data[hole] = 2; }), 0) << "the fault that is guarded";
  const FaultGuard guard(ours->data(), bytes);
  EXPECT_EQ(data[0], 1);
  EXPECT_FALSE(guard.lost());
  data[hole] = 2;
  EXPECT_TRUE(guard.lost());
  // The piece is this process's own from here on, and the tenant's is still the tenant's. Where the
  // kernel has placed the mapping may be an end of a piece.
  const auto piece_of = [&](uint64_t at) {
    return FaultGuard::PieceAround(reinterpret_cast<uintptr_t>(data + at));
  };
  EXPECT_EQ(data[hole], 2);
  EXPECT_EQ(data[0], piece_of(0) == piece_of(hole) ? 0 : 1);
  EXPECT_EQ(tenant->mapping.data()[0], std::byte{1});
}

}  // namespace
}  // namespace harmonaize

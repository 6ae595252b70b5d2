// Pages of somebody else's memory that are not there: with MissingPages an access does not make
// them, and the guard tells.

#include "src/memory/missing_pages.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "src/memory/fault_guard.h"
#include "src/memory/populated_chunks.h"
#include "src/memory/shared_memory.h"

namespace harmonaize {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kOwnedBytes = 3 * PopulatedChunks::kChunkBytes;

class MissingPagesTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_TRUE(FaultGuard::Install().ok());
    installed_ = MissingPages::Install();
  }

  void SetUp() override {
    if (!installed_.ok()) GTEST_SKIP() << installed_.ToString();
    Result<SharedMemory> owned = CreateSharedMemory("owned", kOwnedBytes);
    ASSERT_TRUE(owned.ok());
    owner_ = std::move(*owned);
    // Not sealed, so that pages can still go.
    Result<Mapping> ours = MapForeign(owner_.descriptor.get(), kOwnedBytes, HugePageFiles::kRefuse,
                                      Access::kReadAndWrite);
    ASSERT_TRUE(ours.ok());
    ours_ = std::move(*ours);
    guard_ = FaultGuard(ours_.data(), kOwnedBytes);
    ASSERT_TRUE(MissingPages::Refuse(ours_.data(), kOwnedBytes).ok());
  }
  void TearDown() override { guard_.Reset(); }

  volatile char& Ours(size_t offset) {
    return reinterpret_cast<volatile char*>(ours_.data())[offset];
  }
  volatile char& Owners(size_t offset) {
    return reinterpret_cast<volatile char*>(owner_.mapping.data())[offset];
  }
  void MakeHole(size_t page) {
    ASSERT_EQ(fallocate(owner_.descriptor.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        static_cast<off_t>(page * kPageBytes), kPageBytes),
              0);
  }
  int64_t FileBytes() {
    struct stat about {};
    EXPECT_EQ(fstat(owner_.descriptor.get(), &about), 0);
    return int64_t{512} * about.st_blocks;
  }

  static inline Status installed_;
  SharedMemory owner_;
  Mapping ours_;
  FaultGuard guard_;
};

TEST_F(MissingPagesTest, WhatItsOwnerHasTouchedIsThere) {
  Owners(5 * kPageBytes) = 7;
  EXPECT_EQ(Ours(5 * kPageBytes), 7);
  Ours(5 * kPageBytes + 1) = 8;
  EXPECT_EQ(Owners(5 * kPageBytes + 1), 8);
  EXPECT_FALSE(guard_.lost());
}

TEST_F(MissingPagesTest, AnAccessMakesNoPageOfTheOwners) {
  const uint64_t before = FaultGuard::Losses();
  EXPECT_EQ(Ours(6 * kPageBytes), 0);
  EXPECT_TRUE(guard_.lost());
  EXPECT_EQ(FaultGuard::Losses(), before + 1);
  Ours(7 * kPageBytes) = 1;
  EXPECT_EQ(FileBytes(), 0);
}

TEST_F(MissingPagesTest, AHoleIsAsGoodAsNoPage) {
  Owners(5 * kPageBytes) = 7;
  EXPECT_EQ(Ours(5 * kPageBytes), 7);
  MakeHole(5);
  EXPECT_EQ(Ours(5 * kPageBytes), 0);
  EXPECT_TRUE(guard_.lost());
}

TEST_F(MissingPagesTest, SystemCallsFailUntilThePagesAreTouched) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(pipe2(pipe.data(), O_CLOEXEC), 0);
  const FileDescriptor from(pipe[0]);
  const FileDescriptor to(pipe[1]);
  ASSERT_EQ(write(to.get(), ours_.data() + 100, 8), -1);
  ASSERT_EQ(errno, EFAULT);
  EXPECT_FALSE(guard_.lost()) << "the kernel raises no signal then";
  EXPECT_TRUE(FoundLoss([&] { TouchPages(ours_.data() + 100, 8); }));
  EXPECT_TRUE(guard_.lost());
  EXPECT_EQ(write(to.get(), ours_.data() + 100, 8), 8);
  // The piece is there as a whole. Where the kernel has placed the mapping may be an end of a
  // piece.
  const auto piece_of = [&](uint64_t at) {
    return FaultGuard::PieceAround(reinterpret_cast<uintptr_t>(ours_.data() + at));
  };
  const bool has_another_piece = piece_of(100) != piece_of(kOwnedBytes - 1);
  EXPECT_EQ(FoundLoss([&] { TouchPages(ours_.data(), kOwnedBytes); }), has_another_piece);
  EXPECT_FALSE(FoundLoss([&] { TouchPages(ours_.data(), kOwnedBytes); }));
}

TEST_F(MissingPagesTest, ALossIsToldToAnEvent) {
  const FileDescriptor event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  FaultGuard::TellLossesTo(event.get());
  Owners(0) = 1;
  uint64_t count = 0;
  TouchPages(ours_.data(), kPageBytes);
  EXPECT_EQ(read(event.get(), &count, sizeof count), -1);
  TouchPages(ours_.data(), 2 * kPageBytes);
  EXPECT_EQ(read(event.get(), &count, sizeof count), static_cast<ssize_t>(sizeof count));
  FaultGuard::TellLossesTo(-1);
}

TEST_F(MissingPagesTest, TheOwnerPopulatesWhatItLends) {
  PopulatedChunks populated(owner_.mapping.data(), kOwnedBytes, PageUse::kWrite);
  ASSERT_TRUE(populated.Populate(PopulatedChunks::kChunkBytes - 1, 2).ok());
  EXPECT_EQ(FileBytes(), static_cast<int64_t>(2 * PopulatedChunks::kChunkBytes));
  TouchPages(ours_.data(), 2 * PopulatedChunks::kChunkBytes);
  EXPECT_FALSE(guard_.lost());
  ASSERT_TRUE(populated.Populate(0, kOwnedBytes).ok());
  EXPECT_EQ(FileBytes(), static_cast<int64_t>(kOwnedBytes));
  ASSERT_TRUE(populated.Populate(kOwnedBytes, 0).ok());
}

}  // namespace
}  // namespace harmonaize

// Registered memory on huge pages of which some are missing, while the host has no pages left: any
// access of the daemon raises SIGBUS. It must be the owner's loss alone.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <vector>

#include "src/memory/missing_pages.h"
#include "tests/support/daemon_process.h"
#include "tests/support/hostile_session.h"
#include "tests/support/rank_runner.h"
#include "tests/support/reserved_huge_pages.h"

namespace harmonaize::testing {
namespace {

constexpr int kPages = 8;

class HugePageHolesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!pool_.available()) GTEST_SKIP() << "this host has no huge pages to give";
    Result<SharedMemory> memory = CreateHugePageMemory("tenant", bytes());
    ASSERT_TRUE(memory.ok()) << memory.status().ToString();
    memory_ = std::move(*memory);
    member_ = session_.JoinAlone("holes");
  }

  uint64_t bytes() const { return kPages * pool_.page_bytes(); }

  void Register() {
    const Result<uint32_t> region = session_.TryRegister(memory_.descriptor.get(), bytes());
    ASSERT_TRUE(region.ok()) << region.status().ToString();
    region_ = *region;
  }
  bool MakeHoles() {
    return fallocate(memory_.descriptor.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                     static_cast<off_t>(bytes())) == 0;
  }

  /// An all-reduce of a rank alone, from the first half of the region to the second.
  void PostAllReduce(uint64_t sequence) {
    OperationDescriptor descriptor =
        HostileSession::AllReduceOf(member_, sequence, {0, region_}, {bytes() / 2, region_});
    descriptor.count = bytes() / 2 / sizeof(float);
    descriptor.type = DataType::kFloat32;
    session_.Post(descriptor);
  }

  StreamSlot& stream() { return session_.segment().streams[member_]; }
  void WaitForCompletion(uint64_t position) {
    for (int i = 0; i < 3000 && stream().completed.load() < position; ++i) usleep(10000);
    EXPECT_EQ(stream().completed.load(), position);
  }

  DaemonProcess daemon_;
  ReservedHugePages pool_{kPages};
  HostileSession session_{daemon_.socket_path()};
  SharedMemory memory_;
  uint32_t region_ = 0;
  uint32_t member_ = 0;
};

TEST_F(HugePageHolesTest, CannotBeMadeInRegisteredMemory) {
  Register();
  EXPECT_FALSE(MakeHoles());
  pool_.Exhaust();
  PostAllReduce(0);
  WaitForCompletion(1);
  EXPECT_EQ(stream().error_count.load(), 0u);
  ExpectServing(500'000);
}

TEST_F(HugePageHolesTest, FromBeforeWithPagesToFillThem) {
  memory_.mapping.data()[bytes() - 1] = std::byte{1};
  ASSERT_TRUE(MakeHoles());
  Register();
  TouchPages(memory_.mapping.data(), bytes());
  PostAllReduce(0);
  WaitForCompletion(1);
  EXPECT_EQ(stream().error_count.load(), 0u);
  EXPECT_EQ(memory_.mapping.data()[bytes() - 1], std::byte{0});
  ExpectServing(500'000);
}

TEST_F(HugePageHolesTest, PagesThatAreOnlyPromised) {
  pool_.Exhaust();
  const FileDescriptor empty(memfd_create("empty", MFD_HUGETLB | MFD_ALLOW_SEALING | MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(empty.get(), static_cast<off_t>(bytes())), 0);
  ASSERT_EQ(fcntl(empty.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_EQ(session_.TryRegister(empty.get(), bytes()).status().code(), Code::kSystemError);
  ExpectServing(500'000);
}

}  // namespace
}  // namespace harmonaize::testing

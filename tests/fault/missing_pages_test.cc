// Registered memory of which pages are missing: the daemon must not make them, because they would
// count as its own memory. A client of ours brings them itself.

#include "src/memory/missing_pages.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/daemon_process.h"
#include "tests/support/hostile_session.h"
#include "tests/support/rank_runner.h"
#include "tests/support/sanitized.h"

namespace harmonaize::testing {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

class MissingPagesOfTenants : public ::testing::Test {
 protected:
  void SetUp() override {
    // The kernel gives the daemon what it gives this process.
    const Status refuses = MissingPages::Install();
    if (!refuses.ok()) GTEST_SKIP() << refuses.ToString();
  }

  /// Shared memory that only this process has; registered as region `*region`.
  SharedMemory Register(HostileSession& session, uint64_t bytes, uint32_t* region) {
    Result<SharedMemory> memory = CreateSharedMemory("tenant", bytes);
    EXPECT_TRUE(memory.ok());
    const Result<uint32_t> registered = session.TryRegister(memory->descriptor.get(), bytes);
    EXPECT_TRUE(registered.ok()) << registered.status().ToString();
    *region = registered.ok() ? *registered : kNoBuffer;
    return std::move(*memory);
  }

  /// A line of the daemon's status in /proc, in bytes.
  uint64_t MemoryOf(const char* name) const {
    const long kibibytes = daemon_.NumberIn("status", name);
    EXPECT_GE(kibibytes, 0) << name;
    return static_cast<uint64_t>(kibibytes) * 1024;
  }

  static OperationDescriptor AllReduce(uint32_t member, uint32_t region, uint64_t bytes,
                                       uint64_t sequence = 0) {
    OperationDescriptor descriptor =
        HostileSession::AllReduceOf(member, sequence, {0, region}, {bytes / 2, region});
    descriptor.count = bytes / 2 / sizeof(int32_t);
    return descriptor;
  }

  DaemonProcess daemon_;
};

TEST_F(MissingPagesOfTenants, AreNotMadeByTheDaemon) {
  constexpr uint64_t kBytes = 1024 * kMiB;
  for (const std::string way : {"never touched", "holes"}) {
    SCOPED_TRACE(way);
    HostileSession session(daemon_.socket_path());
    uint32_t region = 0;
    SharedMemory memory = Register(session, kBytes, &region);
    const uint32_t member = session.JoinAlone(way);
    ASSERT_TRUE(session.WaitUntilReady(member));
    if (way == "holes") {
      // The first pages are there, so that workers have begun when they find what is missing.
      TouchPages(memory.mapping.data(), kMiB);
      TouchPages(memory.mapping.data() + kBytes / 2, kMiB);
    }
    const uint64_t shared = MemoryOf("RssShmem");
    const uint64_t own = MemoryOf("RssAnon");
    session.Post(AllReduce(member, region, kBytes));
    EXPECT_TRUE(session.WaitUntilCutOff());
    EXPECT_NE(session.segment().header.goodbye.Get().find("registered memory"), std::string::npos);
    // What takes the pages' place for a moment is a fraction of them.
    EXPECT_LT(MemoryOf("RssShmem"), shared + kBytes / 8);
    const uint64_t own_now = MemoryOf("RssAnon");
    // Sanitizers keep up to several times as much of what is touched.
    if (!kSanitized) {
      EXPECT_LT(own_now, own + kBytes / 4);
    }
    struct stat file {};
    ASSERT_EQ(fstat(memory.descriptor.get(), &file), 0);
    EXPECT_LT(512 * static_cast<uint64_t>(file.st_blocks), kBytes / 8);
    ExpectServing(500'000);
  }
}

TEST_F(MissingPagesOfTenants, HolesCannotBeMadeWhileOperationsRun) {
  constexpr uint64_t kBytes = 64 * kMiB;
  constexpr uint64_t kOperations = 16;
  HostileSession session(daemon_.socket_path());
  uint32_t region = 0;
  SharedMemory memory = Register(session, kBytes, &region);
  TouchPages(memory.mapping.data(), kBytes);
  const uint32_t member = session.JoinAlone("racing");
  ASSERT_TRUE(session.WaitUntilReady(member));
  std::atomic<bool> stop{false};
  std::atomic<int> holes{0};
  std::thread puncher([&] {
    for (uint64_t offset = 0; !stop.load(); offset = (offset + 7 * kMiB + 4096) % kBytes) {
      for (const int descriptor : {memory.descriptor.get(), session.segment_descriptor()}) {
        const auto at = static_cast<off_t>(descriptor == memory.descriptor.get() ? offset : 0);
        if (fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, 4096) == 0) {
          ++holes;
        }
      }
    }
  });
  for (uint64_t sequence = 0; sequence < kOperations; ++sequence) {
    session.Post(AllReduce(member, region, kBytes, sequence));
  }
  const StreamSlot& stream = session.segment().streams[member];
  for (int i = 0; i < 3000 && stream.completed.load() < kOperations; ++i) usleep(10'000);
  stop = true;
  puncher.join();
  EXPECT_EQ(stream.completed.load(), kOperations);
  EXPECT_EQ(stream.error_count.load(), 0u);
  EXPECT_EQ(holes.load(), 0);
  ExpectServing(500'000);
}

TEST_F(MissingPagesOfTenants, AreBroughtByTheClient) {
  RunAsThreads(2, [](int rank, ncclComm_t communicator) {
    constexpr size_t kElements = 5 * kMiB;
    void* send = nullptr;
    void* receive = nullptr;
    ASSERT_NCCL(ncclMemAlloc(&send, kElements * sizeof(float)));
    ASSERT_NCCL(ncclMemAlloc(&receive, kElements * sizeof(float)));
    // Nobody has touched the buffers but for one number.
    if (rank == 0) static_cast<float*>(send)[kElements / 2] = 1;
    EXPECT_NCCL(ncclAllReduce(send, receive, kElements, ncclFloat, ncclSum, communicator, nullptr));
    EXPECT_EQ(static_cast<float*>(receive)[kElements / 2], 1);
    EXPECT_EQ(static_cast<float*>(receive)[kElements - 1], 0);
    EXPECT_NCCL(ncclMemFree(send));
    EXPECT_NCCL(ncclMemFree(receive));
  });
}

}  // namespace
}  // namespace harmonaize::testing

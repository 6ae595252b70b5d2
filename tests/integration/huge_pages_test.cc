// Registered memory on reserved huge pages, through the NCCL API: both ways that an operation can
// go, whole and at its edges, and that the pages go back to the host.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <string>

#include "tests/support/daemon_process.h"
#include "tests/support/rank_runner.h"
#include "tests/support/reserved_huge_pages.h"

namespace harmonaize::testing {
namespace {

constexpr int kRanks = 2;
constexpr int kPages = 4;  // for each of a rank's two buffers

long FreeHugePages() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  long number = -1;
  while (file >> word && word != "HugePages_Free:") {
  }
  return file >> number ? number : -1;
}

void Repeat(int rank, ncclComm_t communicator, float* send, float* receive, size_t count) {
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < count; ++i) send[i] = static_cast<float>((i + rank) % 1000 + round);
    ASSERT_NCCL(ncclAllReduce(send, receive, count, ncclFloat, ncclSum, communicator, nullptr));
    for (size_t i = 0; i < count; ++i) {
      const auto expected = static_cast<float>(i % 1000 + (i + 1) % 1000 + 2 * round);
      ASSERT_EQ(receive[i], expected) << "element " << i << " of " << count;
    }
  }
}

/// With a daemon that sends everything, or nothing, inline.
void RunWith(const std::string& config) {
  ReservedHugePages pool(2 * kPages * kRanks);
  if (!pool.available()) GTEST_SKIP() << "this host has no huge pages to give";
  const DaemonProcess daemon(config);
  const size_t bytes = kPages * pool.page_bytes();
  const long before = FreeHugePages();
  RunAsThreads(kRanks, [&](int rank, ncclComm_t communicator) {
    void* send = nullptr;
    void* receive = nullptr;
    ASSERT_NCCL(ncclMemAlloc(&send, bytes));
    ASSERT_NCCL(ncclMemAlloc(&receive, bytes));
    const size_t all = bytes / sizeof(float);
    auto* const from = static_cast<float*>(send);
    auto* const to = static_cast<float*>(receive);
    Repeat(rank, communicator, from, to, all);
    Repeat(rank, communicator, from + all - 1001, to + all - 1001, 1001);
    Repeat(rank, communicator, from + 3, to + 5, 77'777);
    ASSERT_NCCL(ncclMemFree(send));
    ASSERT_NCCL(ncclMemFree(receive));
  });
  // A rank's view of the other's memory may stay, but nothing is in it.
  EXPECT_EQ(FreeHugePages(), before);
}

TEST(HugePagesTest, ThroughTheDaemon) {
  RunWith("[inline]\nenabled = false\n");
}

TEST(HugePagesTest, Inline) {
  RunWith("[inline]\nregistered_bytes = 1073741824\n");
}

TEST(HugePagesTest, OneRankMayRequireWhatIsNotThere) {
  ReservedHugePages pool(0);
  if (pool.page_bytes() == 0) GTEST_SKIP() << "the kernel has no huge pages";
  pool.Exhaust();
  const DaemonProcess daemon;
  void* memory = nullptr;
  ASSERT_EQ(ncclMemAlloc(&memory, 4 * pool.page_bytes()), ncclSystemError);
  EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("vm.nr_hugepages"), std::string::npos);
}

}  // namespace
}  // namespace harmonaize::testing

int main(int argc, char** argv) {
  // Looked at once a process.
  setenv("HARMONAIZE_HUGE_PAGES", "required", 1);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

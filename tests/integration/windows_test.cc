// Collectives of one host whose private buffers are copied through windows while they are under way
// (docs/architecture.md, "Windows").

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "nccl.h"
#include "src/base/collective.h"
#include "tests/support/daemon_process.h"
#include "tests/support/late_pages.h"
#include "tests/support/nccl_case.h"
#include "tests/support/rank_runner.h"
#include "tests/support/sanitized.h"

namespace harmonaize::testing {
namespace {

/// Everything goes to the daemon, and late ranks are reported soon.
constexpr const char* kByDaemon = "[inline]\nenabled = false\n[ranks]\nlate_after_seconds = 0.2\n";

/// Elements of the larger buffer of a rank: more than is staged as a whole, and no multiple of
/// anything.
constexpr size_t kWindowedElements = (size_t{5} << 20) / sizeof(uint32_t) + 1237;

TEST(Windows, AllCollectivesOfPrivateAndRegisteredBuffers) {
  const DaemonProcess daemon(kByDaemon);
  constexpr int kRanks = 3;
  for (const Collective collective :
       {Collective::kAllReduce, Collective::kReduce, Collective::kBroadcast, Collective::kAllGather,
        Collective::kReduceScatter, Collective::kAllToAll, Collective::kGather,
        Collective::kScatter}) {
    const BufferBlocks root = BlocksOf(collective, kRanks, 1, 1);
    const PreparedCase prepared =
        Prepare({.collective = collective,
                 .type = DataType::kUint32,
                 .op = ReduceOperator::kSum,
                 .ranks = kRanks,
                 .root = 1,
                 .count = kWindowedElements / std::max(root.send, root.receive)});
    RunAsThreads(kRanks, [&](int rank, ncclComm_t communicator) {
      // All ranks have private buffers, then two of them, then one.
      for (int registered = 0; registered < kRanks; ++registered) {
        const Memory memory = rank < registered ? Memory::kRegistered : Memory::kHeap;
        for (const bool in_place : {false, true}) {
          const auto place = static_cast<size_t>(rank);
          RunAndCheck(prepared.c, memory, in_place, rank, prepared.inputs[place], 0,
                      prepared.expected[place], communicator);
        }
      }
    });
  }
}

TEST(Windows, OneBufferOfARankMayBePrivate) {
  const DaemonProcess daemon(kByDaemon);
  RunAsThreads(3, [](int rank, ncclComm_t communicator) {
    void* registered = nullptr;
    ASSERT_NCCL(ncclMemAlloc(&registered, kWindowedElements * sizeof(float)));
    std::vector<float> own(kWindowedElements, 1.0F);
    auto* const other = static_cast<float*>(registered);
    std::fill_n(other, kWindowedElements, 1.0F);
    float* const send = rank == 1 ? other : own.data();
    float* const receive = rank == 1 ? own.data() : other;
    EXPECT_NCCL(
        ncclAllReduce(send, receive, kWindowedElements, ncclFloat, ncclSum, communicator, nullptr));
    EXPECT_EQ(std::vector<float>(receive, receive + kWindowedElements),
              std::vector<float>(kWindowedElements, 3.0F));
    EXPECT_NCCL(ncclMemFree(registered));
  });
}

TEST(Windows, ARankThatDoesNotGetOnWithCopyingIsNamed) {
  if (!LatePages(size_t{1} << 20).valid()) {
    GTEST_SKIP() << "the kernel gives no userfaultfd to this user";
  }
  const DaemonProcess daemon(kByDaemon);
  constexpr int kStuck = 1;
  std::atomic<int> told{0};  // ranks that know whom they wait for
  RunAsThreads(3, [&told](int rank, ncclComm_t communicator) {
    LatePages pages(kWindowedElements / 1024 * 4096);
    ASSERT_TRUE(pages.valid());
    std::vector<float> sum(kWindowedElements / 1024 * 1024, 1.0F);
    // Until both others are told. Then the stuck rank's data comes.
    std::thread watcher([&] {
      if (rank != kStuck) pages.Arrive();
      bool knows = rank == kStuck;
      for (int look = 0; look < 2000 && told.load() < 2; ++look) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        const std::string notice = ncclGetLastError(communicator);
        if (knows || notice.find("for the data of rank 1 ") == std::string::npos) continue;
        EXPECT_EQ(notice.find("rank 0"), std::string::npos) << notice;
        EXPECT_EQ(notice.find("rank 2"), std::string::npos) << notice;
        knows = true;
        ++told;
      }
      if (rank == kStuck) pages.Arrive();
    });
    EXPECT_NCCL(ncclAllReduce(pages.data(), sum.data(), sum.size(), ncclFloat, ncclSum,
                              communicator, nullptr));
    watcher.join();
    EXPECT_EQ(sum, std::vector<float>(sum.size(), 0.0F));
  });
  EXPECT_EQ(told.load(), 2);
}

// The window may not go back to others while the daemon still writes to it. (An abort frees the
// handle, so it may only hit a call that cannot end before: the next test's.)
TEST(Windows, ARevocationInTheMiddleEndsAll) {
  const DaemonProcess daemon(kByDaemon);
  for (int round = 0; round < (kSanitized ? 3 : 10); ++round) {
    RunAsThreads(3, [round](int rank, ncclComm_t communicator) {
      std::vector<float> data(kWindowedElements * 4, 1.0F);
      std::thread revoker;
      if (rank == 0) {
        revoker = std::thread([communicator, round] {
          std::this_thread::sleep_for(std::chrono::microseconds(500 * round));
          EXPECT_NCCL(ncclCommRevoke(communicator, NCCL_REVOKE_DEFAULT));
        });
      }
      while (ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat, ncclMax, communicator,
                           nullptr) == ncclSuccess) {
        EXPECT_EQ(data.back(), 1.0F);
      }
      if (revoker.joinable()) revoker.join();
    });
  }
  ExpectServing(kWindowedElements);
}

TEST(Windows, AnAbortEndsAnOperationThatARankKeepsWaiting) {
  if (!LatePages(size_t{1} << 20).valid()) {
    GTEST_SKIP() << "the kernel gives no userfaultfd to this user";
  }
  const DaemonProcess daemon(kByDaemon);
  ncclUniqueId id;
  ASSERT_NCCL(ncclGetUniqueId(&id));
  ncclComm_t communicators[3] = {};
  std::atomic<int> joined{0};
  std::vector<float> results[3];
  LatePages pages(kWindowedElements / 1024 * 4096);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([&, rank] {
      ncclComm_t& communicator = communicators[rank];
      EXPECT_NCCL(ncclCommInitRank(&communicator, 3, id, rank));
      ++joined;
      std::vector<float>& data = results[rank];
      data.assign(kWindowedElements / 1024 * 1024, 1.0F);
      const void* const input = rank == 2 ? pages.data() : data.data();
      EXPECT_NE(
          ncclAllReduce(input, data.data(), data.size(), ncclFloat, ncclSum, communicator, nullptr),
          ncclSuccess);
    });
  }
  while (joined.load() < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_NCCL(ncclCommAbort(communicators[0]));
  ranks[0].join();
  ranks[1].join();
  EXPECT_EQ(results[1].back(), 1.0F) << "nothing is copied out of what has failed";
  pages.Arrive();
  ranks[2].join();
  for (const int rank : {1, 2}) EXPECT_NCCL(ncclCommAbort(communicators[rank]));
  ExpectServing(kWindowedElements);
}

TEST(Windows, ARankThatIsKilledInTheMiddleIsNamed) {
  const DaemonProcess daemon(kByDaemon);
  const std::vector<int> statuses = RunAsProcesses(3, [](int rank) {
    ncclComm_t communicator = nullptr;
    EXPECT_NCCL(JoinNamed("killed", 3, rank, &communicator));
    std::vector<float> data(kWindowedElements * 4, 1.0F);
    if (rank == 2) {
      std::thread([] {
        std::this_thread::sleep_for(std::chrono::milliseconds(kSanitized ? 300 : 60));
        kill(getpid(), SIGKILL);
      }).detach();
    }
    ncclResult_t result = ncclSuccess;
    while (result == ncclSuccess) {
      result = ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat, ncclMax,
                             communicator, nullptr);
    }
    EXPECT_EQ(result, ncclRemoteError);
    const std::string error = ncclGetLastError(communicator);
    EXPECT_NE(error.find("rank 2"), std::string::npos) << error;
    EXPECT_NCCL(ncclCommAbort(communicator));
    return 0;
  });
  EXPECT_EQ(statuses[0], 0);
  EXPECT_EQ(statuses[1], 0);
}

}  // namespace
}  // namespace harmonaize::testing

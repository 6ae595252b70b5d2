// Errors, not hangs: what the ranks are told when one of them errs, dies or never comes.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "harmonaize.h"
#include "tests/support/daemon_process.h"
#include "tests/support/eventually.h"
#include "tests/support/rank_runner.h"

namespace harmonaize::testing {
namespace {

using std::chrono::steady_clock;

class ErrorsTest : public ::testing::Test {
 protected:
  DaemonProcess daemon_{"[ranks]\nlate_after_seconds = 0.2\nformation_timeout_seconds = 2\n"};
};

bool Mentions(ncclComm_t communicator, const std::string& text) {
  return std::string(ncclGetLastError(communicator)).find(text) != std::string::npos;
}

ncclResult_t AllReduce(ncclComm_t communicator, size_t count, ncclDataType_t type = ncclFloat,
                       ncclRedOp_t op = ncclSum) {
  std::vector<double> data(count);
  return ncclAllReduce(data.data(), data.data(), count, type, op, communicator, nullptr);
}

TEST_F(ErrorsTest, RanksThatDisagreeAreNamed) {
  RunAsThreads(3, [](int rank, ncclComm_t communicator) {
    EXPECT_EQ(AllReduce(communicator, rank == 1 ? 7 : 8), ncclInvalidUsage);
    EXPECT_TRUE(Mentions(communicator, "rank 1 asked for AllReduce(7 x float32, sum)"))
        << ncclGetLastError(communicator);
    EXPECT_EQ(AllReduce(communicator, 8, rank == 2 ? ncclInt : ncclFloat), ncclInvalidUsage);
    EXPECT_TRUE(Mentions(communicator, "rank 2 asked for AllReduce(8 x int32, sum)"));
    EXPECT_EQ(AllReduce(communicator, 8, ncclFloat, rank == 0 ? ncclMin : ncclMax),
              ncclInvalidUsage);
    EXPECT_TRUE(Mentions(communicator, "rank 0 asked for AllReduce(8 x float32, min)"));
    float value = 0;
    EXPECT_EQ(ncclBroadcast(&value, &value, 1, ncclFloat, rank == 0 ? 0 : 1, communicator, nullptr),
              ncclInvalidUsage);
    // Nothing is lost: the communicator goes on.
    EXPECT_EQ(AllReduce(communicator, 8), ncclSuccess);
  });
}

TEST_F(ErrorsTest, MessagesThatDisagreeAreNamed) {
  RunAsThreads(2, [](int rank, ncclComm_t communicator) {
    int data[4] = {};
    const ncclResult_t result = rank == 0 ? ncclSend(data, 4, ncclInt, 1, communicator, nullptr)
                                          : ncclRecv(data, 3, ncclInt, 0, communicator, nullptr);
    EXPECT_EQ(result, ncclInvalidUsage);
    EXPECT_TRUE(Mentions(communicator, "rank 0 asked for Send(4 x int32)"))
        << ncclGetLastError(communicator);
  });
}

// In processes of their own: each is warned once. Small ones go inline, large ones to the daemon.
TEST_F(ErrorsTest, MessagesMayDifferInTypeButNotInBytes) {
  const std::vector<int> statuses = RunAsProcesses(2, [](int rank) {
    ncclComm_t communicator;
    if (JoinNamed("types", 2, rank, &communicator) != ncclSuccess) return 2;
    const std::string warning = "rank 0 sends 2 x float64, rank 1 receives 16 x uint8";
    for (const size_t count : {size_t{2}, size_t{1000}, size_t{300001}}) {
      const auto exchange = [&](std::vector<double>& data, size_t bytes) {
        return rank == 0 ? ncclSend(data.data(), count, ncclDouble, 1, communicator, nullptr)
                         : ncclRecv(data.data(), bytes, ncclUint8, 0, communicator, nullptr);
      };
      std::vector<double> data(count, rank == 0 ? 1.5 : 0);
      EXPECT_NCCL(exchange(data, 8 * count));
      EXPECT_EQ(data, std::vector<double>(count, 1.5));
      EXPECT_EQ(Mentions(communicator, warning), count == 2) << ncclGetLastError(communicator);
      EXPECT_EQ(exchange(data, 8 * count - 1), ncclInvalidUsage);
      EXPECT_TRUE(Mentions(communicator, fmt::format("asked for Send({} x float64)", count)));
      EXPECT_TRUE(Mentions(communicator, fmt::format("Recv({} x uint8)", 8 * count - 1)))
          << ncclGetLastError(communicator);
    }
    return ncclCommDestroy(communicator) == ncclSuccess ? 0 : 3;
  });
  for (const int status : statuses) EXPECT_EQ(status, 0) << WEXITSTATUS(status);
  unsetenv("NCCL_COMM_ID");
}

TEST_F(ErrorsTest, AMessageToOneselfNeedsItsReceiveInTheGroup) {
  RunAsThreads(2, [](int rank, ncclComm_t communicator) {
    int out = 7;
    int in = 0;
    EXPECT_EQ(ncclSend(&out, 1, ncclInt, rank, communicator, nullptr), ncclInvalidUsage);
    EXPECT_TRUE(Mentions(communicator, "between ncclGroupStart and ncclGroupEnd"))
        << ncclGetLastError(communicator);
    EXPECT_EQ(ncclRecv(&in, 1, ncclInt, rank, communicator, nullptr), ncclInvalidUsage);
    for (const int receives : {0, 2}) {
      EXPECT_NCCL(ncclGroupStart());
      EXPECT_NCCL(ncclSend(&out, 1, ncclInt, rank, communicator, nullptr));
      for (int i = 0; i < receives; ++i) {
        EXPECT_NCCL(ncclRecv(&in, 1, ncclInt, rank, communicator, nullptr));
      }
      EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
    }
    EXPECT_EQ(in, 0);
    EXPECT_NCCL(ncclGroupStart());
    EXPECT_NCCL(ncclRecv(&in, 4, ncclUint8, rank, communicator, nullptr));
    EXPECT_NCCL(ncclSend(&out, 1, ncclInt, rank, communicator, nullptr));
    EXPECT_NCCL(ncclGroupEnd());
    EXPECT_EQ(in, 7);
    EXPECT_EQ(AllReduce(communicator, 8), ncclSuccess);
  });
}

TEST_F(ErrorsTest, BadArgumentsAreRefusedAtOnce) {
  RunAsThreads(1, [](int, ncclComm_t communicator) {
    float value = 0;
    EXPECT_EQ(ncclAllReduce(nullptr, &value, 1, ncclFloat, ncclSum, communicator, nullptr),
              ncclInvalidArgument);
    EXPECT_EQ(ncclAllReduce(&value, &value, 1, static_cast<ncclDataType_t>(99), ncclSum,
                            communicator, nullptr),
              ncclInvalidArgument);
    EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat, static_cast<ncclRedOp_t>(99),
                            communicator, nullptr),
              ncclInvalidArgument);
    EXPECT_EQ(ncclBroadcast(&value, &value, 1, ncclFloat, 1, communicator, nullptr),
              ncclInvalidArgument);
    EXPECT_EQ(ncclSend(&value, 1, ncclFloat, -1, communicator, nullptr), ncclInvalidArgument);
    EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, nullptr, nullptr),
              ncclInvalidArgument);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  });
}

TEST_F(ErrorsTest, ABufferThatIsNotThereIsNamed) {
  RunAsThreads(2, [](int rank, ncclComm_t communicator) {
    std::vector<float> good(100000);
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    void* const unmapped = mmap(nullptr, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(unmapped, MAP_FAILED);
    for (void* const bad : {reinterpret_cast<void*>(0x1000), unmapped}) {
      for (const size_t count : {size_t{1}, size_t{200}, size_t{5000}, size_t{100000}}) {
        EXPECT_EQ(ncclAllReduce(good.data(), rank == 1 ? bad : good.data(), count, ncclFloat,
                                ncclSum, communicator, nullptr),
                  ncclInvalidArgument);
        EXPECT_TRUE(Mentions(communicator, "receive buffer of rank 1"))
            << ncclGetLastError(communicator);
        EXPECT_EQ(ncclAllReduce(rank == 0 ? bad : good.data(), good.data(), count, ncclFloat,
                                ncclSum, communicator, nullptr),
                  ncclInvalidArgument);
        EXPECT_TRUE(Mentions(communicator, "send buffer of rank 0"))
            << ncclGetLastError(communicator);
        EXPECT_EQ(rank == 0 ? ncclSend(bad, count, ncclFloat, 1, communicator, nullptr)
                            : ncclRecv(good.data(), count, ncclFloat, 0, communicator, nullptr),
                  ncclInvalidArgument);
        EXPECT_EQ(AllReduce(communicator, 8), ncclSuccess) << ncclGetLastError(communicator);
      }
    }
    munmap(unmapped, page);
  });
}

TEST_F(ErrorsTest, ADeadRankIsNamed) {
  const std::vector<int> statuses = RunAsProcesses(3, [](int rank) {
    ncclComm_t communicator;
    if (JoinNamed("dead-rank", 3, rank, &communicator) != ncclSuccess) return 2;
    if (AllReduce(communicator, 100) != ncclSuccess) return 3;
    if (rank == 1) raise(SIGKILL);
    if (AllReduce(communicator, 100) != ncclRemoteError) return 4;
    if (!Mentions(communicator, "rank 1")) return 5;
    ncclResult_t state = ncclSuccess;
    if (ncclCommGetAsyncError(communicator, &state) != ncclSuccess) return 6;
    if (state != ncclRemoteError) return 7;
    // The others can go on without it.
    int excluded[] = {1};
    ncclComm_t rest;
    if (ncclCommShrink(communicator, excluded, 1, &rest, nullptr, NCCL_SHRINK_ABORT) != ncclSuccess)
      return 8;
    if (AllReduce(rest, 100) != ncclSuccess) return 9;
    if (ncclCommDestroy(rest) != ncclSuccess) return 10;
    return ncclCommAbort(communicator) == ncclSuccess ? 0 : 11;
  });
  EXPECT_EQ(statuses[0], 0) << WEXITSTATUS(statuses[0]);
  EXPECT_TRUE(WIFSIGNALED(statuses[1]));
  EXPECT_EQ(statuses[2], 0) << WEXITSTATUS(statuses[2]);
  unsetenv("NCCL_COMM_ID");
}

TEST_F(ErrorsTest, LostRanksAreToldAndLeftOut) {
  const std::vector<int> statuses = RunAsProcesses(4, [](int rank) {
    ncclComm_t communicator = nullptr;
    EXPECT_NCCL(JoinNamed("lost-ranks", 4, rank, &communicator));
    int ranks[4] = {-1, -1, -1, -1};
    int count = -1;
    EXPECT_NCCL(hzLostRanks(communicator, 4, ranks, &count));
    EXPECT_EQ(count, 0);
    EXPECT_NCCL(AllReduce(communicator, 100));
    if (rank == 1) raise(SIGKILL);
    if (rank == 3) return ncclCommAbort(communicator) == ncclSuccess ? 0 : 1;
    EXPECT_EQ(AllReduce(communicator, 100), ncclRemoteError);
    EXPECT_TRUE(Eventually(10, [&] {
      EXPECT_NCCL(hzLostRanks(communicator, 0, nullptr, &count));
      return count == 2;
    }));
    // Fewer than there are.
    EXPECT_NCCL(hzLostRanks(communicator, 1, ranks, &count));
    EXPECT_EQ(count, 2);
    EXPECT_EQ(std::vector<int>(ranks, ranks + 2), (std::vector<int>{1, -1}));
    EXPECT_NCCL(hzLostRanks(communicator, 4, ranks, &count));
    EXPECT_EQ(std::vector<int>(ranks, ranks + 3), (std::vector<int>{1, 3, -1}));
    ncclComm_t rest = nullptr;
    EXPECT_NCCL(ncclCommShrink(communicator, ranks, count, &rest, nullptr, NCCL_SHRINK_ABORT));
    EXPECT_NCCL(hzLostRanks(rest, 4, ranks, &count));
    EXPECT_EQ(count, 0);
    EXPECT_NCCL(AllReduce(rest, 100));
    EXPECT_EQ(hzLostRanks(rest, -1, ranks, &count), ncclInvalidArgument);
    EXPECT_EQ(hzLostRanks(rest, 1, nullptr, &count), ncclInvalidArgument);
    EXPECT_EQ(hzLostRanks(rest, 1, ranks, nullptr), ncclInvalidArgument);
    EXPECT_NCCL(ncclCommDestroy(rest));
    EXPECT_NCCL(ncclCommAbort(communicator));
    return 0;
  });
  EXPECT_TRUE(WIFSIGNALED(statuses[1]));
  for (const size_t rank : {0, 2, 3}) EXPECT_EQ(statuses[rank], 0) << "rank " << rank;
  unsetenv("NCCL_COMM_ID");
}

TEST_F(ErrorsTest, LostRanksAreNotToldWithoutADaemon) {
  ncclComm_t communicators[2];
  ASSERT_NCCL(ncclCommInitAll(communicators, 2, nullptr));
  daemon_.Kill();
  int count = 0;
  EXPECT_EQ(hzLostRanks(communicators[0], 0, nullptr, &count), ncclRemoteError);
  for (ncclComm_t communicator : communicators) EXPECT_NCCL(ncclCommAbort(communicator));
  EXPECT_EQ(hzLostRanks(nullptr, 0, nullptr, &count), ncclInvalidArgument);
}

TEST_F(ErrorsTest, ALateRankIsReportedWhileTheOthersWait) {
  RunAsThreads(2, [](int rank, ncclComm_t communicator) {
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(900));
    EXPECT_EQ(AllReduce(communicator, 8), ncclSuccess);
    if (rank == 0) {
      EXPECT_TRUE(Mentions(communicator, "AllReduce #0 has waited"))
          << ncclGetLastError(communicator);
      EXPECT_TRUE(Mentions(communicator, "rank 1"));
    }
  });
}

TEST_F(ErrorsTest, ACommunicatorThatNeverFormsFails) {
  ncclUniqueId id;
  ASSERT_NCCL(ncclGetUniqueId(&id));
  ncclComm_t communicator = nullptr;
  EXPECT_EQ(ncclCommInitRank(&communicator, 3, id, 1), ncclRemoteError);
  EXPECT_EQ(communicator, nullptr);
  EXPECT_TRUE(Mentions(nullptr, "ranks 0, 2")) << ncclGetLastError(nullptr);
}

TEST_F(ErrorsTest, WrongJoinsAreRefused) {
  ncclUniqueId id;
  ASSERT_NCCL(ncclGetUniqueId(&id));
  ncclComm_t communicator = nullptr;
  EXPECT_EQ(ncclCommInitRank(&communicator, 2, id, 2), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRank(&communicator, 0, id, 0), ncclInvalidArgument);
  ncclUniqueId nonsense = {};
  EXPECT_EQ(ncclCommInitRank(&communicator, 1, nonsense, 0), ncclInvalidArgument);
  ncclUniqueId invented = id;
  invented.internal[20] = static_cast<char>(invented.internal[20] ^ 1);
  EXPECT_EQ(ncclCommInitRank(&communicator, 1, invented, 0), ncclInvalidArgument);
}

// One thread is inside a call, its stream full of operations that wait for the other rank, while
// another aborts: what it posts when it comes free ends with an error, and the process is not cut
// off for it.
TEST_F(ErrorsTest, AbortMayHitAThreadThatPosts) {
  for (int round = 0; round < 3; ++round) {
    ncclComm_t communicators[2];
    const int devices[] = {0, 1};
    ASSERT_NCCL(ncclCommInitAll(communicators, 2, devices));
    cudaStream_t stream;
    ASSERT_NCCL(hzStreamCreate(&stream));
    // Operations on other memory are done when their calls return.
    constexpr size_t kCount = 100000;
    void* data = nullptr;
    ASSERT_NCCL(ncclMemAlloc(&data, kCount * sizeof(float)));
    std::atomic<int> posted{0};
    std::atomic<bool> aborting{false};
    std::thread poster([&] {
      while (!aborting.load() && ncclBroadcast(data, data, kCount, ncclFloat, 0, communicators[0],
                                               stream) == ncclSuccess) {
        ++posted;
      }
    });
    // The handle is gone after the abort: the call under way must be the last.
    for (int seen = -1; seen != posted.load();) {
      seen = posted.load();
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    aborting.store(true);
    EXPECT_NCCL(ncclCommAbort(communicators[0]));
    poster.join();
    EXPECT_GT(posted.load(), 0);
    EXPECT_NCCL(ncclCommAbort(communicators[1]));
    EXPECT_EQ(hzStreamSynchronize(stream), ncclRemoteError);
    EXPECT_NCCL(hzStreamDestroy(stream)) << "round " << round;
    EXPECT_NCCL(ncclMemFree(data));
  }
}

TEST_F(ErrorsTest, AbortReturnsWhateverThePeersDo) {
  ncclComm_t communicators[2];
  ASSERT_NCCL(ncclCommInitAll(communicators, 2, nullptr));
  // Rank 0 waits in a collective that rank 1 never joins; another thread aborts it.
  ncclResult_t result = ncclSuccess;
  std::thread waiting([&] { result = AllReduce(communicators[0], 100); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const auto start = steady_clock::now();
  EXPECT_NCCL(ncclCommAbort(communicators[0]));
  EXPECT_LT(steady_clock::now() - start, std::chrono::seconds(5));
  waiting.join();
  EXPECT_EQ(result, ncclRemoteError);
  EXPECT_EQ(AllReduce(communicators[1], 100), ncclRemoteError);
  EXPECT_TRUE(Mentions(communicators[1], "rank 0")) << ncclGetLastError(communicators[1]);
  EXPECT_NCCL(ncclCommAbort(communicators[1]));
}

TEST_F(ErrorsTest, ARankThatLeftIsNamed) {
  RunAsThreads(2, [](int rank, ncclComm_t communicator) {
    if (rank == 1) return;  // destroys its communicator
    EXPECT_EQ(AllReduce(communicator, 100), ncclRemoteError);
    EXPECT_TRUE(Mentions(communicator, "rank 1")) << ncclGetLastError(communicator);
  });
}

TEST_F(ErrorsTest, AStreamTellsOfAFailureAtSynchronize) {
  RunAsThreads(2, [](int rank, ncclComm_t communicator) {
    cudaStream_t stream;
    ASSERT_NCCL(hzStreamCreate(&stream));
    std::vector<float> data(16);
    EXPECT_NCCL(ncclAllReduce(data.data(), data.data(), rank == 0 ? 8 : 9, ncclFloat, ncclSum,
                              communicator, stream));
    EXPECT_EQ(hzStreamSynchronize(stream), ncclInvalidUsage);
    EXPECT_EQ(hzStreamSynchronize(stream), ncclSuccess);
    EXPECT_NCCL(hzStreamDestroy(stream));
  });
}

TEST_F(ErrorsTest, ADeadDaemonIsNoticedByAll) {
  ncclComm_t communicators[2];
  ASSERT_NCCL(ncclCommInitAll(communicators, 2, nullptr));
  ncclResult_t result = ncclSuccess;
  std::thread waiting([&] { result = AllReduce(communicators[0], 100); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  daemon_.Kill();
  const auto start = steady_clock::now();
  waiting.join();
  // Two seconds are promised; the rest is for a machine under load.
  EXPECT_LT(steady_clock::now() - start, std::chrono::seconds(10));
  EXPECT_EQ(result, ncclRemoteError);
  for (ncclComm_t communicator : communicators) {
    EXPECT_EQ(AllReduce(communicator, 100), ncclRemoteError);
    ncclResult_t state = ncclSuccess;
    EXPECT_NCCL(ncclCommGetAsyncError(communicator, &state));
    EXPECT_EQ(state, ncclRemoteError);
    ncclComm_t other;
    EXPECT_EQ(ncclCommSplit(communicator, 0, 0, &other, nullptr), ncclRemoteError);
    EXPECT_NCCL(ncclCommAbort(communicator));
  }
}

TEST(WithoutADaemon, TheErrorNamesTheSocketAndTheWayOut) {
  setenv("HARMONAIZE_SOCKET", "/tmp/harmonaize-nobody-listens-here.sock", 1);
  ncclUniqueId id;
  EXPECT_NE(ncclGetUniqueId(&id), ncclSuccess);
  EXPECT_TRUE(Mentions(nullptr, "/tmp/harmonaize-nobody-listens-here.sock"));
  EXPECT_TRUE(Mentions(nullptr, "harmonaized"));
}

}  // namespace
}  // namespace harmonaize::testing

// How communicators come, change and go.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/daemon_process.h"
#include "tests/support/rank_runner.h"

namespace harmonaize::testing {
namespace {

class CommunicatorsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { daemon_ = new DaemonProcess(); }
  static void TearDownTestSuite() { delete daemon_; }
  static DaemonProcess* daemon_;
};
DaemonProcess* CommunicatorsTest::daemon_ = nullptr;

/// An all-reduce of ones: the number of ranks that took part.
int CountRanks(ncclComm_t communicator) {
  int one = 1;
  int sum = 0;
  const ncclResult_t result = ncclAllReduce(&one, &sum, 1, ncclInt, ncclSum, communicator, nullptr);
  return result == ncclSuccess ? sum : -static_cast<int>(result);
}

TEST_F(CommunicatorsTest, AnswersForItself) {
  RunAsThreads(3, [](int rank, ncclComm_t communicator) {
    int value = -1;
    EXPECT_NCCL(ncclCommCount(communicator, &value));
    EXPECT_EQ(value, 3);
    EXPECT_NCCL(ncclCommUserRank(communicator, &value));
    EXPECT_EQ(value, rank);
    EXPECT_NCCL(ncclCommCuDevice(communicator, &value));
    ncclResult_t state = ncclInternalError;
    EXPECT_NCCL(ncclCommGetAsyncError(communicator, &state));
    EXPECT_EQ(state, ncclSuccess);
  });
}

TEST_F(CommunicatorsTest, InitAllInOneThread) {
  constexpr int kRanks = 4;
  ncclComm_t communicators[kRanks];
  ASSERT_NCCL(ncclCommInitAll(communicators, kRanks, nullptr));
  int inputs[kRanks];
  int outputs[kRanks] = {};
  ASSERT_NCCL(ncclGroupStart());
  for (int rank = 0; rank < kRanks; ++rank) {
    inputs[rank] = 1 << rank;
    EXPECT_NCCL(ncclAllReduce(&inputs[rank], &outputs[rank], 1, ncclInt, ncclSum,
                              communicators[rank], nullptr));
  }
  ASSERT_NCCL(ncclGroupEnd());
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(outputs[rank], 15);
    EXPECT_NCCL(ncclCommDestroy(communicators[rank]));
  }
}

TEST_F(CommunicatorsTest, RanksJoinInAGroupOfOneThread) {
  ncclUniqueId id;
  ASSERT_NCCL(ncclGetUniqueId(&id));
  ncclComm_t communicators[2];
  ASSERT_NCCL(ncclGroupStart());
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_NCCL(ncclCommInitRank(&communicators[rank], 2, id, rank));
  }
  ASSERT_NCCL(ncclGroupEnd());
  for (ncclComm_t communicator : communicators) EXPECT_NCCL(ncclCommDestroy(communicator));
}

TEST_F(CommunicatorsTest, ProcessesFindEachOtherByName) {
  const std::vector<int> statuses = RunAsProcesses(4, [](int rank) {
    ncclComm_t communicator;
    if (JoinNamed("127.0.0.1:29501", 4, rank, &communicator) != ncclSuccess) return 2;
    if (CountRanks(communicator) != 4) return 3;
    return ncclCommDestroy(communicator) == ncclSuccess ? 0 : 4;
  });
  for (const int status : statuses) EXPECT_EQ(status, 0);
  unsetenv("NCCL_COMM_ID");
}

TEST_F(CommunicatorsTest, ScalableInitTakesSeveralIds) {
  ncclUniqueId ids[2];
  for (ncclUniqueId& id : ids) ASSERT_NCCL(ncclGetUniqueId(&id));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      ncclComm_t communicator;
      ASSERT_NCCL(ncclCommInitRankScalable(&communicator, 4, rank, 2, ids, nullptr));
      EXPECT_EQ(CountRanks(communicator), 4);
      EXPECT_NCCL(ncclCommDestroy(communicator));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// Of a formation whose ranks call with these numbers and ranks, one after the other: all fail, and
/// each is told `sentence`.
void ExpectDisagreement(const std::vector<std::pair<int, int>>& calls,
                        const std::string& sentence) {
  ncclUniqueId id;
  ASSERT_NCCL(ncclGetUniqueId(&id));
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  for (const auto& [ranks, rank] : calls) {
    threads.emplace_back([&, ranks = ranks, rank = rank] {
      ncclComm_t communicator = nullptr;
      EXPECT_EQ(ncclCommInitRank(&communicator, ranks, id, rank), ncclInvalidUsage);
      EXPECT_EQ(communicator, nullptr);
      const std::string told = ncclGetLastError(nullptr);
      EXPECT_NE(told.find(sentence), std::string::npos) << told;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST_F(CommunicatorsTest, RanksThatDisagreeAboutTheirNumberAllFail) {
  ExpectDisagreement({{4, 0}, {4, 2}, {3, 1}, {4, 3}},
                     "ranks 0, 2 asked for a communicator of 4 ranks, rank 1 for one of 3");
}

TEST_F(CommunicatorsTest, ARankThatIsGivenTwiceFailsAll) {
  ExpectDisagreement({{3, 0}, {3, 1}, {3, 1}, {3, 2}}, "rank 1 was given twice");
}

TEST_F(CommunicatorsTest, ANameServesAgainAfterADisagreement) {
  const std::vector<int> statuses = RunAsProcesses(2, [](int rank) {
    ncclComm_t communicator;
    if (JoinNamed("disagree", 2 + rank, rank, &communicator) != ncclInvalidUsage) return 2;
    if (JoinNamed("disagree", 2, rank, &communicator) != ncclSuccess) return 3;
    if (CountRanks(communicator) != 2) return 4;
    return ncclCommDestroy(communicator) == ncclSuccess ? 0 : 5;
  });
  for (const int status : statuses) EXPECT_EQ(status, 0) << status / 256;
  unsetenv("NCCL_COMM_ID");
}

TEST_F(CommunicatorsTest, NonBlockingInitAndOperations) {
  ncclUniqueId id;
  ASSERT_NCCL(ncclGetUniqueId(&id));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const auto await = [](ncclComm_t communicator) {
        ncclResult_t state = ncclInProgress;
        while (state == ncclInProgress) {
          if (ncclCommGetAsyncError(communicator, &state) != ncclSuccess) return ncclInternalError;
        }
        return state;
      };
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 0;
      ncclComm_t communicator;
      const ncclResult_t started = ncclCommInitRankConfig(&communicator, 2, id, rank, &config);
      EXPECT_TRUE(started == ncclSuccess || started == ncclInProgress);
      ASSERT_EQ(await(communicator), ncclSuccess);
      std::vector<float> data(100000, 1.0f);
      for (int i = 0; i < 10; ++i) {
        const ncclResult_t posted = ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat,
                                                  ncclMax, communicator, nullptr);
        EXPECT_TRUE(posted == ncclSuccess || posted == ncclInProgress);
        ASSERT_EQ(await(communicator), ncclSuccess);
      }
      const ncclResult_t finalized = ncclCommFinalize(communicator);
      EXPECT_TRUE(finalized == ncclSuccess || finalized == ncclInProgress);
      ASSERT_EQ(await(communicator), ncclSuccess);
      EXPECT_NCCL(ncclCommDestroy(communicator));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// Every call on a communicator that is not ready, or whose last call is not done, is refused.
void ExpectRefusedInProgress(ncclComm_t communicator) {
  int number = 0;
  float value = 0;
  ncclComm_t part = nullptr;
  EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, communicator, nullptr),
            ncclInvalidArgument);
  EXPECT_NE(std::string(ncclGetLastError(communicator)).find("ncclCommGetAsyncError"),
            std::string::npos)
      << ncclGetLastError(communicator);
  EXPECT_EQ(ncclCommCount(communicator, &number), ncclInvalidArgument);
  EXPECT_EQ(ncclCommUserRank(communicator, &number), ncclInvalidArgument);
  EXPECT_EQ(ncclCommSplit(communicator, 0, 0, &part, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommFinalize(communicator), ncclInvalidArgument);
  ncclResult_t state = ncclSuccess;
  EXPECT_NCCL(ncclCommGetAsyncError(communicator, &state));
  EXPECT_EQ(state, ncclInProgress);
}

TEST_F(CommunicatorsTest, CallsBeforeTheLastOneIsDoneAreRefused) {
  ncclUniqueId id;
  ASSERT_NCCL(ncclGetUniqueId(&id));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comms[2] = {};
  ASSERT_EQ(ncclCommInitRankConfig(&comms[0], 2, id, 0, &config), ncclInProgress);
  ExpectRefusedInProgress(comms[0]);
  ncclCommInitRankConfig(&comms[1], 2, id, 1, &config);
  const auto await = [&](int rank) {
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) EXPECT_NCCL(ncclCommGetAsyncError(comms[rank], &state));
    return state;
  };
  for (const int rank : {0, 1}) ASSERT_EQ(await(rank), ncclSuccess);

  // An operation that waits for the other rank, in memory that the call need not wait for.
  void* memory = nullptr;
  ASSERT_NCCL(ncclMemAlloc(&memory, 4 << 20));
  ASSERT_EQ(ncclAllReduce(memory, memory, 1 << 20, ncclFloat, ncclSum, comms[0], nullptr),
            ncclInProgress);
  float value = 0;
  EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comms[0], nullptr),
            ncclInvalidArgument);
  EXPECT_EQ(ncclCommFinalize(comms[0]), ncclInvalidArgument);
  void* other = nullptr;
  ASSERT_NCCL(ncclMemAlloc(&other, 4 << 20));
  ncclAllReduce(other, other, 1 << 20, ncclFloat, ncclSum, comms[1], nullptr);
  for (const int rank : {0, 1}) {
    ASSERT_EQ(await(rank), ncclSuccess);
    const ncclResult_t finalized = ncclCommFinalize(comms[rank]);
    EXPECT_TRUE(finalized == ncclSuccess || finalized == ncclInProgress);
    ASSERT_EQ(await(rank), ncclSuccess);
  }
  EXPECT_EQ(ncclCommFinalize(comms[0]), ncclInvalidArgument);
  EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comms[0], nullptr),
            ncclInvalidUsage);
  for (const ncclComm_t comm : comms) EXPECT_NCCL(ncclCommDestroy(comm));
  for (void* one : {memory, other}) EXPECT_NCCL(ncclMemFree(one));
}

TEST_F(CommunicatorsTest, FinalizingTwiceIsRefused) {
  RunAsThreads(1, [](int, ncclComm_t communicator) {
    EXPECT_NCCL(ncclCommFinalize(communicator));
    EXPECT_EQ(ncclCommFinalize(communicator), ncclInvalidArgument);
    EXPECT_NE(std::string(ncclGetLastError(communicator)).find("finalized before"),
              std::string::npos);
  });
}

TEST_F(CommunicatorsTest, SplitByColorAndKey) {
  RunAsThreads(5, [](int rank, ncclComm_t communicator) {
    // Evens and odds, in reverse order; rank 4 takes no part, and may be gone before the others
    // come.
    if (rank != 4) std::this_thread::sleep_for(std::chrono::milliseconds(rank * 5));
    const int color = rank == 4 ? NCCL_SPLIT_NOCOLOR : rank % 2;
    ncclComm_t part = nullptr;
    ASSERT_NCCL(ncclCommSplit(communicator, color, -rank, &part, nullptr));
    if (rank == 4) {
      EXPECT_EQ(part, nullptr);
      return;
    }
    int number = -1;
    EXPECT_NCCL(ncclCommUserRank(part, &number));
    EXPECT_EQ(number, rank < 2 ? 1 : 0);
    EXPECT_EQ(CountRanks(part), 2);
    EXPECT_NCCL(ncclCommDestroy(part));
  });
}

TEST_F(CommunicatorsTest, ShrinkLeavesRanksOut) {
  RunAsThreads(4, [](int rank, ncclComm_t communicator) {
    if (rank == 1) return;
    int excluded[] = {1};
    ncclComm_t rest = nullptr;
    ASSERT_NCCL(ncclCommShrink(communicator, excluded, 1, &rest, nullptr, NCCL_SHRINK_DEFAULT));
    int number = -1;
    EXPECT_NCCL(ncclCommUserRank(rest, &number));
    EXPECT_EQ(number, rank == 0 ? 0 : rank - 1);
    EXPECT_EQ(CountRanks(rest), 3);
    EXPECT_NCCL(ncclCommDestroy(rest));
  });
}

TEST_F(CommunicatorsTest, ShrinkNeedsOneListOfAll) {
  RunAsThreads(3, [](int rank, ncclComm_t communicator) {
    if (rank == 2) return;
    int excluded[] = {2, 1};  // rank 0 leaves out 1 as well
    ncclComm_t rest = nullptr;
    const ncclResult_t result =
        ncclCommShrink(communicator, excluded, rank == 0 ? 2 : 1, &rest, nullptr, 0);
    // Rank 0 alone may have been done before rank 1 came.
    if (rank == 0 && result == ncclSuccess) {
      EXPECT_NCCL(ncclCommDestroy(rest));
    }
  });
}

TEST_F(CommunicatorsTest, GrowTakesNewRanksIn) {
  ncclUniqueId id;
  ASSERT_NCCL(ncclGetUniqueId(&id));
  ncclUniqueId grow_id;
  std::vector<std::thread> threads;
  std::atomic<bool> have_id{false};
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      ncclComm_t small;
      ASSERT_NCCL(ncclCommInitRank(&small, 2, id, rank));
      if (rank == 0) {
        ASSERT_NCCL(ncclCommGetUniqueId(small, &grow_id));
        have_id = true;
      }
      ncclComm_t grown = nullptr;
      ASSERT_NCCL(ncclCommGrow(small, 4, rank == 0 ? &grow_id : nullptr, -1, &grown, nullptr));
      int number = -1;
      EXPECT_NCCL(ncclCommUserRank(grown, &number));
      EXPECT_EQ(number, rank);
      EXPECT_EQ(CountRanks(grown), 4);
      EXPECT_NCCL(ncclCommDestroy(grown));
      EXPECT_NCCL(ncclCommDestroy(small));
    });
  }
  for (int rank = 2; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      while (!have_id) std::this_thread::yield();
      ncclComm_t grown = nullptr;
      ASSERT_NCCL(ncclCommGrow(nullptr, 4, &grow_id, rank, &grown, nullptr));
      EXPECT_EQ(CountRanks(grown), 4);
      EXPECT_NCCL(ncclCommDestroy(grown));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(CommunicatorsTest, RevokedCommunicatorsCanBeSplit) {
  RunAsThreads(2, [](int rank, ncclComm_t communicator) {
    EXPECT_EQ(CountRanks(communicator), 2);
    if (rank == 0) {
      EXPECT_NCCL(ncclCommRevoke(communicator, NCCL_REVOKE_DEFAULT));
    }
    while (CountRanks(communicator) == 2) {
    }
    ncclComm_t again = nullptr;
    ASSERT_NCCL(ncclCommSplit(communicator, 0, rank, &again, nullptr));
    EXPECT_EQ(CountRanks(again), 2);
    EXPECT_NCCL(ncclCommDestroy(again));
  });
}

TEST_F(CommunicatorsTest, AHundredAtOnce) {
  constexpr int kCommunicators = 100;
  constexpr int kRanks = 4;
  std::vector<ncclUniqueId> ids(kCommunicators);
  for (ncclUniqueId& id : ids) ASSERT_NCCL(ncclGetUniqueId(&id));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      std::vector<ncclComm_t> communicators(kCommunicators);
      ASSERT_NCCL(ncclGroupStart());
      for (int i = 0; i < kCommunicators; ++i) {
        ASSERT_NCCL(ncclCommInitRank(&communicators[i], kRanks, ids[i], rank));
      }
      ASSERT_NCCL(ncclGroupEnd());
      std::vector<int> values(kCommunicators);
      for (int round = 0; round < 3; ++round) {
        // Every rank in an order of its own: in a group that is allowed.
        ASSERT_NCCL(ncclGroupStart());
        for (int i = 0; i < kCommunicators; ++i) {
          const int c = (i * 7 + rank * 13) % kCommunicators;
          values[c] = c + rank;
          ASSERT_NCCL(ncclAllReduce(&values[c], &values[c], 1, ncclInt, ncclSum, communicators[c],
                                    nullptr));
        }
        ASSERT_NCCL(ncclGroupEnd());
        for (int c = 0; c < kCommunicators; ++c) EXPECT_EQ(values[c], kRanks * c + 6);
      }
      for (ncclComm_t communicator : communicators) EXPECT_NCCL(ncclCommDestroy(communicator));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(CommunicatorsTest, AForkedChildIsToldToMakeItsOwn) {
  RunAsThreads(1, [](int, ncclComm_t communicator) {
    EXPECT_EQ(CountRanks(communicator), 1);
    const std::vector<int> statuses = RunAsProcesses(1, [&](int) {
      if (CountRanks(communicator) != -static_cast<int>(ncclInvalidUsage)) return 2;
      ncclUniqueId id;
      if (ncclGetUniqueId(&id) != ncclSuccess) return 3;
      ncclComm_t own;
      if (ncclCommInitRank(&own, 1, id, 0) != ncclSuccess) return 4;
      if (CountRanks(own) != 1) return 5;
      return ncclCommDestroy(own) == ncclSuccess ? 0 : 6;
    });
    EXPECT_EQ(statuses.front(), 0);
    EXPECT_EQ(CountRanks(communicator), 1);
  });
}

}  // namespace
}  // namespace harmonaize::testing

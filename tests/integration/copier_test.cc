// Private data of operations for which no thread waits: of host streams, of non-blocking
// communicators, and of groups (docs/architecture.md, "Who copies").

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "harmonaize.h"
#include "nccl.h"
#include "tests/support/daemon_process.h"
#include "tests/support/private_data.h"
#include "tests/support/rank_runner.h"
#include "tests/support/sanitized.h"

namespace harmonaize::testing {
namespace {

// ---------------------------------------------------------------------------------------------
// Order

TEST(Copier, AnOperationTakesWhatTheOneBeforeHasMade) {
  const DaemonProcess daemon(kAllByDaemon);
  RunAsThreads(3, [](int, ncclComm_t communicator) {
    const Stream stream;
    for (const size_t elements : {kWhole, kSliced}) {
      std::vector<uint32_t> data(elements, 1);
      uint32_t expected = 1;
      for (int i = 0; i < 8; ++i, expected *= 3) {
        EXPECT_NCCL(SumInPlace(&data, communicator, stream));
      }
      EXPECT_NCCL(hzStreamSynchronize(stream));
      ExpectAll(data, expected);
    }
  });
}

TEST(Copier, LargeAndSmallOperationsOnOneBuffer) {
  const DaemonProcess daemon(kAllByDaemon);
  RunAsThreads(2, [](int rank, ncclComm_t communicator) {
    const Stream stream;
    std::vector<uint32_t> data(kSliced, 1);
    EXPECT_NCCL(SumInPlace(&data, communicator, stream));  // 2
    // A part of it, to another part of it, which the next one takes in.
    EXPECT_NCCL(ncclAllReduce(data.data(), data.data() + 5000, 1000, ncclUint32, ncclSum,
                              communicator, stream));  // 4
    EXPECT_NCCL(ncclAllReduce(data.data() + 5500, data.data() + 100, 10, ncclUint32, ncclSum,
                              communicator, stream));  // 8
    if (rank == 0) {
      EXPECT_NCCL(ncclSend(data.data() + 100, 10, ncclUint32, 1, communicator, stream));
    } else {
      EXPECT_NCCL(ncclRecv(data.data() + 200, 10, ncclUint32, 0, communicator, stream));
    }
    EXPECT_NCCL(SumInPlace(&data, communicator, stream));
    EXPECT_NCCL(hzStreamSynchronize(stream));
    EXPECT_EQ(data[0], 4u);
    EXPECT_EQ(data[5000], 8u);
    EXPECT_EQ(data[109], 16u);
    EXPECT_EQ(data[200], 10u) << "what rank 1 had received, and what rank 0 had";
  });
}

// Were the copies made in the order of the calls, each rank would wait for the other.
TEST(Copier, RanksMayUseTheirStreamsInOppositeOrder) {
  const DaemonProcess daemon(kAllByDaemon);
  RunAsThreads(2, [](int rank, ncclComm_t first) {
    const ncclComm_t second = SplitOff(first, rank);
    const Stream streams[2];
    const ncclComm_t communicators[2] = {first, second};
    std::vector<uint32_t> data[2];
    for (std::vector<uint32_t>& one : data) one.assign(kSliced, 1);
    for (int round = 0; round < 4; ++round) {
      for (int turn = 0; turn < 2; ++turn) {
        const int which = (turn + rank) % 2;
        EXPECT_NCCL(SumInPlace(&data[which], communicators[which], streams[which]));
        // In the first call of all, the peer has not called on this communicator.
        if (turn == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    }
    for (int which : {0, 1}) {
      EXPECT_NCCL(hzStreamSynchronize(streams[(which + rank) % 2]));
      ExpectAll(data[(which + rank) % 2], 16);
    }
    EXPECT_NCCL(ncclCommDestroy(second));
  });
}

TEST(Copier, RandomOrdersOfChains) {
  const DaemonProcess daemon;
  constexpr int kRanks = 3;
  const uint32_t seed = std::random_device()();
  for (uint32_t round = 0; round < (kSanitized ? 2 : 6); ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed + round));
    RunAsThreads(kRanks,
                 [=](int rank, ncclComm_t world) { RunChains(rank, kRanks, world, seed + round); });
  }
}

// ---------------------------------------------------------------------------------------------
// Groups

TEST(Copier, OneThreadDrivesAllRanksOfAGroup) {
  const DaemonProcess daemon(kAllByDaemon);
  constexpr int kRanks = 4;
  ncclComm_t communicators[kRanks];
  ASSERT_NCCL(ncclCommInitAll(communicators, kRanks, nullptr));
  const Stream streams[2];
  for (const cudaStream_t stream : {cudaStream_t(nullptr), cudaStream_t(streams[0])}) {
    std::vector<std::vector<uint32_t>> data(kRanks, std::vector<uint32_t>(kSliced, 1));
    std::vector<std::vector<uint32_t>> more(kRanks, std::vector<uint32_t>(kSliced, 2));
    EXPECT_NCCL(ncclGroupStart());
    for (size_t rank = 0; rank < kRanks; ++rank) {
      EXPECT_NCCL(SumInPlace(&data[rank], communicators[rank], stream));
      EXPECT_NCCL(SumInPlace(&more[rank], communicators[rank], stream));
    }
    EXPECT_NCCL(ncclGroupEnd());
    if (stream != nullptr) {
      EXPECT_NCCL(hzStreamSynchronize(stream));
    }
    for (size_t rank = 0; rank < kRanks; ++rank) {
      ExpectAll(data[rank], kRanks);
      ExpectAll(more[rank], 2 * kRanks);
    }
  }
  for (const ncclComm_t communicator : communicators) EXPECT_NCCL(ncclCommDestroy(communicator));
}

// Each rank would copy for its first communicator alone, which is the other's last.
TEST(Copier, RanksMayListTheirGroupsInOppositeOrder) {
  const DaemonProcess daemon(kAllByDaemon);
  RunAsThreads(2, [](int rank, ncclComm_t first) {
    const ncclComm_t second = SplitOff(first, rank);
    const ncclComm_t communicators[2] = {first, second};
    std::vector<uint32_t> data[2];
    for (std::vector<uint32_t>& one : data) one.assign(kSliced, 1);
    EXPECT_NCCL(ncclGroupStart());
    for (const int turn : {0, 1}) {
      const int which = (turn + rank) % 2;
      EXPECT_NCCL(SumInPlace(&data[which], communicators[which], nullptr));
    }
    EXPECT_NCCL(ncclGroupEnd());
    for (const std::vector<uint32_t>& one : data) ExpectAll(one, 2);
    EXPECT_NCCL(ncclCommDestroy(second));
  });
}

// More than a process may have under way: the caller waits for room while data is to be copied.
TEST(Copier, AGroupThatIsPostedPieceByPiece) {
  const DaemonProcess daemon("[quota]\noutstanding_operations = 16\n[inline]\nenabled = false\n");
  RunAsThreads(2, [](int, ncclComm_t communicator) {
    constexpr size_t kOperations = 60;
    constexpr size_t kElements = (size_t{1} << 20) / sizeof(uint32_t);
    std::vector<std::vector<uint32_t>> data(kOperations, std::vector<uint32_t>(kElements, 1));
    EXPECT_NCCL(ncclGroupStart());
    for (std::vector<uint32_t>& one : data) EXPECT_NCCL(SumInPlace(&one, communicator, nullptr));
    EXPECT_NCCL(ncclGroupEnd());
    for (const std::vector<uint32_t>& one : data) ExpectAll(one, 2);
  });
}

TEST(Copier, NobodyCopiesForADaemonThatIsGone) {
  for (int round = 0; round < (kSanitized ? 2 : 6); ++round) {
    DaemonProcess daemon(kAllByDaemon);
    std::atomic<int> posted{0};
    RunAsThreads(2, [&daemon, &posted, round](int rank, ncclComm_t world) {
      ncclComm_t other = SplitOff(world, rank);
      cudaStream_t stream = nullptr;
      EXPECT_NCCL(hzStreamCreate(&stream));
      std::vector<uint32_t> small(kWhole, 1);
      std::vector<uint32_t> large(8 * kSliced, 1);
      for (int i = 0; i < 3; ++i) {
        EXPECT_NCCL(SumInPlace(&large, other, stream));
        EXPECT_NCCL(SumInPlace(&small, other, stream));
      }
      ++posted;
      if (rank == 0) {
        while (posted < 2) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(3 * round));
        daemon.Kill();
      }
      // A fast machine may be done before.
      const ncclResult_t result = hzStreamSynchronize(stream);
      EXPECT_TRUE(result == ncclSuccess || result == ncclRemoteError) << result;
      static_cast<void>(hzStreamDestroy(stream));
      std::fill(large.begin(), large.end(), 7);
      ExpectAll(large, 7);
      EXPECT_NCCL(ncclCommAbort(other));
    });
  }
}

// ---------------------------------------------------------------------------------------------
// Memory

// As much as the windows of two ranks, however large the data is.
TEST(Copier, LargeOperationsNeedLittleSharedMemory) {
  const DaemonProcess daemon("[quota]\nregion_bytes = 8388608\n[inline]\nenabled = false\n");
  RunAsThreads(2, [](int rank, ncclComm_t communicator) {
    const Stream stream;
    std::vector<uint32_t> data((size_t{64} << 20) / sizeof(uint32_t), 1);
    EXPECT_NCCL(SumInPlace(&data, communicator, stream));
    EXPECT_NCCL(hzStreamSynchronize(stream));
    ExpectAll(data, 2);
    EXPECT_NCCL(rank == 0
                    ? ncclSend(data.data(), data.size(), ncclUint32, 1, communicator, nullptr)
                    : ncclRecv(data.data(), data.size(), ncclUint32, 0, communicator, nullptr));
    ExpectAll(data, 2);
  });
}

// ---------------------------------------------------------------------------------------------
// Sends and receives

TEST(Copier, EveryRankSendsToEveryRank) {
  const DaemonProcess daemon(kAllByDaemon);
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  RunAsThreads(kExchangingRanks, [seed](int rank, ncclComm_t communicator) {
    const Stream stream;
    for (uint32_t round = 0; round < (kSanitized ? 2 : 6); ++round) {
      ExchangeAll(rank, communicator, round % 2 == 0 ? nullptr : cudaStream_t(stream),
                  seed + round);
    }
  });
}

// Without windows for pieces of it, a ring would be as large as the data.
TEST(Copier, ARingThatManyMessagesGoAround) {
  const DaemonProcess daemon(kAllByDaemon);
  RunAsThreads(3, [](int rank, ncclComm_t communicator) {
    const Stream stream;
    constexpr int kTurns = 6;
    std::vector<uint32_t> data = Message(rank, 0, kSliced);
    std::vector<uint32_t> got(kSliced);
    for (int turn = 0; turn < kTurns; ++turn) {
      EXPECT_NCCL(ncclGroupStart());
      EXPECT_NCCL(ncclSend(data.data(), kSliced, ncclUint32, (rank + 1) % 3, communicator, stream));
      EXPECT_NCCL(ncclRecv(got.data(), kSliced, ncclUint32, (rank + 2) % 3, communicator, stream));
      EXPECT_NCCL(ncclGroupEnd());
      data.swap(got);  // what was received is sent next
    }
    EXPECT_NCCL(hzStreamSynchronize(stream));
    EXPECT_EQ(data == Message(rank, 0, kSliced), true);
  });
}

TEST(Copier, MessagesOfAGroupOnTwoStreams) {
  const DaemonProcess daemon(kAllByDaemon);
  RunAsThreads(2, [](int rank, ncclComm_t communicator) {
    constexpr size_t kMessages = 6;
    const Stream streams[2];
    std::vector<std::vector<uint32_t>> data;
    for (size_t i = 0; i < kMessages; ++i) {
      data.push_back(rank == 0 ? Message(0, static_cast<int>(i), kSliced)
                               : std::vector<uint32_t>(kSliced));
    }
    EXPECT_NCCL(ncclGroupStart());
    for (size_t i = 0; i < kMessages; ++i) {
      const cudaStream_t stream = streams[i % 2];
      uint32_t* const message = data[i].data();
      EXPECT_NCCL(rank == 0 ? ncclSend(message, kSliced, ncclUint32, 1, communicator, stream)
                            : ncclRecv(message, kSliced, ncclUint32, 0, communicator, stream));
    }
    EXPECT_NCCL(ncclGroupEnd());
    for (const Stream& stream : streams) EXPECT_NCCL(hzStreamSynchronize(stream));
    for (size_t i = 0; i < kMessages; ++i) {
      EXPECT_EQ(data[i] == Message(0, static_cast<int>(i), kSliced), true) << i;
    }
  });
}

TEST(Copier, TypesOfAPairMayDiffer) {
  const DaemonProcess daemon(kAllByDaemon);
  RunAsThreads(2, [](int rank, ncclComm_t communicator) {
    std::vector<uint32_t> data = Message(0, rank, kSliced);
    if (rank == 0) {
      EXPECT_NCCL(ncclSend(data.data(), 4 * kSliced, ncclInt8, 1, communicator, nullptr));
    } else {
      EXPECT_NCCL(ncclRecv(data.data(), kSliced, ncclFloat, 0, communicator, nullptr));
    }
    EXPECT_EQ(data == Message(0, 0, kSliced), true);
  });
}

TEST(Copier, AnAbortEndsPairsInTheMiddle) {
  const DaemonProcess daemon(kAllByDaemon);
  for (int round = 0; round < (kSanitized ? 3 : 10); ++round) {
    RunAsThreads(3, [round](int rank, ncclComm_t world) {
      AbortPairs(rank, world, std::chrono::microseconds(300 * round + 100 * rank));
    });
  }
}

// ---------------------------------------------------------------------------------------------
// Who copies

TEST(Copier, NobodyNeedsToAsk) {
  const DaemonProcess daemon(kAllByDaemon);
  std::atomic<bool> done{false};
  RunAsThreads(2, [&done](int rank, ncclComm_t communicator) {
    const Stream stream;
    std::vector<uint32_t> data(4 * kSliced, 1);
    EXPECT_NCCL(SumInPlace(&data, communicator, stream));
    if (rank == 0) {
      EXPECT_NCCL(hzStreamSynchronize(stream));
      done = true;
    } else {
      // It computes, and does not come by.
      for (int look = 0; look < 2000 && !done; ++look) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      EXPECT_TRUE(done);
    }
    EXPECT_NCCL(hzStreamSynchronize(stream));
    ExpectAll(data, 2);
  });
}

// What the waiting thread would find to do, the other one may have done.
TEST(Copier, AThreadMayAskWhileAnotherWaits) {
  const DaemonProcess daemon(kAllByDaemon);
  RunAsThreads(2, [](int, ncclComm_t communicator) {
    const Stream stream;
    std::vector<uint32_t> data(kWhole, 0);
    std::atomic<bool> ended{false};
    std::thread asks([&] {
      while (!ended) static_cast<void>(hzStreamQuery(stream));
    });
    for (int round = 0; round < (kSanitized ? 200 : 3000); ++round) {
      EXPECT_NCCL(SumInPlace(&data, communicator, stream));
      EXPECT_NCCL(SumInPlace(&data, communicator, stream));
      EXPECT_NCCL(hzStreamSynchronize(stream));
    }
    ended = true;
    asks.join();
  });
}

// Their results may not pile up, which shows in the time that each takes as well.
TEST(Copier, AStreamThatNobodyAsksAbout) {
  const DaemonProcess daemon(kAllByDaemon);
  RunAsThreads(2, [](int, ncclComm_t communicator) {
    const Stream stream;
    const std::vector<uint32_t> ones(4, 1);
    std::vector<std::vector<uint32_t>> sums(64, std::vector<uint32_t>(4, 0));
    for (size_t i = 0; i < (kSanitized ? 2'000 : 50'000); ++i) {
      EXPECT_NCCL(ncclAllReduce(ones.data(), sums[i % sums.size()].data(), 4, ncclUint32, ncclSum,
                                communicator, stream));
    }
    EXPECT_NCCL(hzStreamSynchronize(stream));
    for (const std::vector<uint32_t>& sum : sums) ExpectAll(sum, 2);
  });
}

TEST(Copier, ANonBlockingCommunicatorIsDoneWhenItsDataIsThere) {
  const DaemonProcess daemon(kAllByDaemon);
  ncclUniqueId id;
  ASSERT_NCCL(ncclGetUniqueId(&id));
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&id, rank] {
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 0;
      ncclComm_t communicator = nullptr;
      const auto settle = [&communicator] {
        ncclResult_t state = ncclInProgress;
        while (state == ncclInProgress) {
          EXPECT_NCCL(ncclCommGetAsyncError(communicator, &state));
          std::this_thread::yield();
        }
        EXPECT_EQ(state, ncclSuccess);
      };
      const ncclResult_t begun = ncclCommInitRankConfig(&communicator, 2, id, rank, &config);
      EXPECT_TRUE(begun == ncclSuccess || begun == ncclInProgress);
      settle();
      for (const size_t elements : {kSliced, kWhole, 2 * kSliced}) {
        std::vector<uint32_t> data(elements, 1);
        const ncclResult_t posted = SumInPlace(&data, communicator, nullptr);
        EXPECT_TRUE(posted == ncclInProgress || posted == ncclSuccess) << posted;
        settle();
        ExpectAll(data, 2);
      }
      std::vector<uint32_t> last(kSliced, 1);
      const ncclResult_t posted = SumInPlace(&last, communicator, nullptr);
      EXPECT_TRUE(posted == ncclInProgress || posted == ncclSuccess) << posted;
      settle();
      EXPECT_NCCL(ncclCommDestroy(communicator));
      ExpectAll(last, 2);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST(Copier, AThousandStreams) {
  const DaemonProcess daemon(kAllByDaemon);
  RunAsThreads(2, [](int, ncclComm_t communicator) {
    constexpr size_t kStreams = kSanitized ? 100 : 500;
    std::vector<cudaStream_t> streams(kStreams);
    std::vector<std::vector<uint32_t>> data(kStreams);
    for (size_t i = 0; i < kStreams; ++i) {
      EXPECT_NCCL(hzStreamCreate(&streams[i]));
      data[i].assign(i % 50 == 0 ? kSliced : kWhole, static_cast<uint32_t>(i));
      EXPECT_NCCL(SumInPlace(&data[i], communicator, streams[i]));
    }
    for (size_t i = kStreams; i-- > 0;) {
      EXPECT_NCCL(hzStreamDestroy(streams[i]));
      ExpectAll(data[i], 2 * static_cast<uint32_t>(i));
    }
  });
}

}  // namespace
}  // namespace harmonaize::testing

// Host streams, groups and memory.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "harmonaize.h"
#include "tests/support/daemon_process.h"
#include "tests/support/rank_runner.h"
#include "tests/support/sanitized.h"

namespace harmonaize::testing {
namespace {

class StreamsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { daemon_ = new DaemonProcess(); }
  static void TearDownTestSuite() { delete daemon_; }
  static DaemonProcess* daemon_;
};
DaemonProcess* StreamsTest::daemon_ = nullptr;

// Each operation reads what the one before wrote, with no wait in between.
void ChainOperations(int* data, size_t count, ncclComm_t communicator, int ranks) {
  constexpr int kLinks = 20;
  cudaStream_t stream;
  ASSERT_NCCL(hzStreamCreate(&stream));
  for (size_t i = 0; i < count; ++i) data[i] = 1;
  for (int link = 0; link < kLinks; ++link) {
    ASSERT_NCCL(ncclAllReduce(data, data, count, ncclInt, ncclSum, communicator, stream));
    ASSERT_NCCL(ncclAllReduce(data, data, count, ncclInt, ncclMax, communicator, stream));
  }
  ASSERT_NCCL(hzStreamSynchronize(stream));
  EXPECT_EQ(hzStreamQuery(stream), ncclSuccess);
  unsigned expected = 1;
  for (int link = 0; link < kLinks; ++link) expected *= static_cast<unsigned>(ranks);
  for (size_t i = 0; i < count; ++i) ASSERT_EQ(static_cast<unsigned>(data[i]), expected);
  ASSERT_NCCL(hzStreamDestroy(stream));
}

TEST_F(StreamsTest, OperationsOfAStreamRunInOrder) {
  for (const size_t count : {size_t{1}, size_t{5000}, size_t{300000}}) {
    RunAsThreads(3, [count](int, ncclComm_t communicator) {
      std::vector<int> heap(count);
      ChainOperations(heap.data(), count, communicator, 3);
      void* registered = nullptr;
      ASSERT_NCCL(ncclMemAlloc(&registered, count * sizeof(int)));
      ChainOperations(static_cast<int*>(registered), count, communicator, 3);
      ASSERT_NCCL(ncclMemFree(registered));
    });
  }
}

// A stream takes the place of one that failed, or carried more: it begins as new, and a
// communicator that used both can be destroyed.
TEST_F(StreamsTest, AStreamOwesNothingToTheOneBefore) {
  RunAsThreads(2, [](int rank, ncclComm_t communicator) {
    cudaStream_t first;
    ASSERT_NCCL(hzStreamCreate(&first));
    // Too large for the inline path of a stream, so the daemon counts them.
    std::vector<int> data(200000, 1);
    for (int i = 0; i < 5; ++i) {
      ASSERT_NCCL(ncclAllReduce(data.data(), data.data(), data.size(), ncclInt, ncclMax,
                                communicator, first));
    }
    const size_t count = rank == 0 ? 200000 : 199999;
    ASSERT_NCCL(
        ncclAllReduce(data.data(), data.data(), count, ncclInt, ncclMax, communicator, first));
    EXPECT_EQ(hzStreamDestroy(first), ncclInvalidUsage);
    cudaStream_t second;
    ASSERT_NCCL(hzStreamCreate(&second));
    EXPECT_EQ(hzStreamQuery(second), ncclSuccess);
    ASSERT_NCCL(ncclAllReduce(data.data(), data.data(), 1, ncclInt, ncclMax, communicator, second));
    EXPECT_EQ(hzStreamSynchronize(second), ncclSuccess);
    EXPECT_EQ(hzStreamDestroy(second), ncclSuccess);
  });
}

TEST_F(StreamsTest, AStreamOrdersOperationsOfDifferentCommunicators) {
  RunAsThreads(2, [](int rank, ncclComm_t communicator) {
    ncclComm_t other;
    ASSERT_NCCL(ncclCommSplit(communicator, 0, rank, &other, nullptr));
    cudaStream_t stream;
    ASSERT_NCCL(hzStreamCreate(&stream));
    std::vector<int> data(20000, 1);
    for (int i = 0; i < 10; ++i) {
      ASSERT_NCCL(ncclAllReduce(data.data(), data.data(), data.size(), ncclInt, ncclSum,
                                i % 2 == 0 ? communicator : other, stream));
    }
    ASSERT_NCCL(hzStreamSynchronize(stream));
    for (const int value : data) ASSERT_EQ(value, 1024);
    ASSERT_NCCL(hzStreamDestroy(stream));
    EXPECT_NCCL(ncclCommDestroy(other));
  });
}

TEST_F(StreamsTest, AFullQueueMakesTheCallerWait) {
  RunAsThreads(2, [](int rank, ncclComm_t communicator) {
    cudaStream_t stream;
    ASSERT_NCCL(hzStreamCreate(&stream));
    std::vector<int> values(5000, rank);
    for (int& value : values) {
      ASSERT_NCCL(ncclAllReduce(&value, &value, 1, ncclInt, ncclSum, communicator, stream));
    }
    ASSERT_NCCL(hzStreamSynchronize(stream));
    for (const int value : values) ASSERT_EQ(value, 1);
    ASSERT_NCCL(hzStreamDestroy(stream));
  });
}

TEST_F(StreamsTest, SendsAndReceivesInAnyOrder) {
  constexpr int kRanks = 4;
  constexpr int kMessages = 50;
  RunAsThreads(kRanks, [](int rank, ncclComm_t communicator) {
    std::vector<int> sent(kRanks * kMessages);
    std::vector<int> received(kRanks * kMessages, -1);
    ASSERT_NCCL(ncclGroupStart());
    // All sends first, itself included; then all receives, from the last peer to the first.
    for (int peer = 0; peer < kRanks; ++peer) {
      for (int m = 0; m < kMessages; ++m) {
        int& value = sent[peer * kMessages + m];
        value = rank * 1000000 + peer * 1000 + m;
        ASSERT_NCCL(ncclSend(&value, 1, ncclInt, peer, communicator, nullptr));
      }
    }
    for (int peer = kRanks - 1; peer >= 0; --peer) {
      for (int m = 0; m < kMessages; ++m) {
        ASSERT_NCCL(
            ncclRecv(&received[peer * kMessages + m], 1, ncclInt, peer, communicator, nullptr));
      }
    }
    ASSERT_NCCL(ncclGroupEnd());
    for (int peer = 0; peer < kRanks; ++peer) {
      for (int m = 0; m < kMessages; ++m) {
        ASSERT_EQ(received[peer * kMessages + m], peer * 1000000 + rank * 1000 + m);
      }
    }
  });
}

TEST_F(StreamsTest, AGroupMixesCollectivesAndMessages) {
  RunAsThreads(2, [](int rank, ncclComm_t communicator) {
    int sum = rank + 1;
    int out = rank;
    int in = -1;
    int largest = rank;
    ASSERT_NCCL(ncclGroupStart());
    ASSERT_NCCL(ncclRecv(&in, 1, ncclInt, 1 - rank, communicator, nullptr));
    ASSERT_NCCL(ncclAllReduce(&sum, &sum, 1, ncclInt, ncclSum, communicator, nullptr));
    ASSERT_NCCL(ncclSend(&out, 1, ncclInt, 1 - rank, communicator, nullptr));
    ASSERT_NCCL(ncclAllReduce(&largest, &largest, 1, ncclInt, ncclMax, communicator, nullptr));
    ASSERT_NCCL(ncclGroupEnd());
    EXPECT_EQ(sum, 3);
    EXPECT_EQ(in, 1 - rank);
    EXPECT_EQ(largest, 1);
  });
}

TEST_F(StreamsTest, SimulationEstimatesAndRunsNothing) {
  RunAsThreads(2, [](int, ncclComm_t communicator) {
    std::vector<float> data(1 << 20, 1.0f);
    ASSERT_NCCL(ncclGroupStart());
    ASSERT_NCCL(ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat, ncclSum,
                              communicator, nullptr));
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    ASSERT_NCCL(ncclGroupSimulateEnd(&info));
    EXPECT_GT(info.estimatedTime, 0.0f);
    EXPECT_EQ(data[0], 1.0f);
    float one = 1;
    EXPECT_NCCL(ncclAllReduce(&one, &one, 1, ncclFloat, ncclSum, communicator, nullptr));
    EXPECT_EQ(one, 2.0f);
  });
}

TEST_F(StreamsTest, RegistrationTakesAnyMemory) {
  RunAsThreads(2, [](int, ncclComm_t communicator) {
    std::vector<float> heap(1000, 1.0f);
    void* handle = nullptr;
    EXPECT_NCCL(ncclCommRegister(communicator, heap.data(), heap.size() * sizeof(float), &handle));
    EXPECT_NCCL(ncclAllReduce(heap.data(), heap.data(), heap.size(), ncclFloat, ncclSum,
                              communicator, nullptr));
    EXPECT_EQ(heap[999], 2.0f);
    EXPECT_NCCL(ncclCommDeregister(communicator, handle));
    void* shared = nullptr;
    ASSERT_NCCL(ncclMemAlloc(&shared, 4096));
    ncclWindow_t window = nullptr;
    EXPECT_NCCL(
        ncclCommWindowRegister(communicator, shared, 4096, &window, NCCL_WIN_COLL_SYMMETRIC));
    EXPECT_NCCL(ncclCommWindowDeregister(communicator, window));
    EXPECT_NCCL(ncclMemFree(shared));
  });
}

// What waits behind the earlier operations of its own stream is queued, and nobody is late.
TEST(StreamQueues, AreNotReportedAsLateRanks) {
  const DaemonProcess daemon("[ranks]\nlate_after_seconds = 0.1\n", true);
  RunAsThreads(2, [](int, ncclComm_t communicator) {
    constexpr size_t kCount = size_t{8} << 20;
    // For several times as long as a rank may be late; sanitizers make an operation ten times
    // slower.
    constexpr int kQueued = kSanitized ? 40 : 400;
    void* data = nullptr;
    ASSERT_NCCL(ncclMemAlloc(&data, kCount * sizeof(int)));
    cudaStream_t stream;
    ASSERT_NCCL(hzStreamCreate(&stream));
    // Both are here now.
    ASSERT_NCCL(ncclAllReduce(data, data, kCount, ncclInt, ncclMax, communicator, nullptr));
    for (int i = 0; i < kQueued; ++i) {
      ASSERT_NCCL(ncclAllReduce(data, data, kCount, ncclInt, ncclMax, communicator, stream));
    }
    ASSERT_NCCL(hzStreamSynchronize(stream));
    ASSERT_NCCL(hzStreamDestroy(stream));
    ASSERT_NCCL(ncclMemFree(data));
  });
  EXPECT_EQ(daemon.Log().find("has waited"), std::string::npos) << daemon.Log();
}

}  // namespace
}  // namespace harmonaize::testing

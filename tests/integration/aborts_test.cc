// A thread that waits inside a call is freed by an ncclCommAbort in another one; and where a
// program holds one lock around all its calls, non-blocking communicators do not wait inside them.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "harmonaize.h"
#include "tests/support/daemon_process.h"
#include "tests/support/rank_runner.h"
#include "tests/support/sanitized.h"

namespace harmonaize::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

class AbortsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { daemon_ = new DaemonProcess(); }
  static void TearDownTestSuite() { delete daemon_; }

  void SetUp() override { ASSERT_NCCL(ncclCommInitAll(comms_, 2, nullptr)); }
  /// Ends the communicators that a test has left.
  void TearDown() override {
    for (ncclComm_t comm : comms_) EXPECT_NCCL(ncclCommAbort(comm));
  }

  /// Aborts a rank's communicator while another thread is inside `waiting`, which is to end soon
  /// with the result that it gives.
  void AbortDuring(const std::function<ncclResult_t()>& waiting, ncclResult_t result, int rank = 0);

  static DaemonProcess* daemon_;
  ncclComm_t comms_[2] = {};
};
DaemonProcess* AbortsTest::daemon_ = nullptr;

/// For a call to get to where it waits.
constexpr milliseconds kUntilItWaits(kSanitized ? 500 : 150);
/// Within which an abort is prompt, on a busy machine.
constexpr seconds kPromptly(5);
/// Large enough that no rank carries it out without the daemon.
constexpr size_t kLargeCount = 1'000'000;

void AbortsTest::AbortDuring(const std::function<ncclResult_t()>& waiting, ncclResult_t result,
                             int rank) {
  std::atomic<bool> ended{false};
  ncclResult_t got = ncclSuccess;
  std::thread inside([&] {
    got = waiting();
    ended = true;
  });
  std::this_thread::sleep_for(kUntilItWaits);
  EXPECT_FALSE(ended) << "it did not wait";
  const auto start = steady_clock::now();
  EXPECT_NCCL(ncclCommAbort(comms_[rank]));
  EXPECT_LT(steady_clock::now() - start, kPromptly);
  inside.join();
  comms_[rank] = nullptr;
  EXPECT_LT(steady_clock::now() - start, kPromptly);
  EXPECT_EQ(got, result);
}

ncclResult_t ReduceInPlace(std::vector<float>* data, ncclComm_t communicator,
                           cudaStream_t stream = nullptr) {
  return ncclAllReduce(data->data(), data->data(), data->size(), ncclFloat, ncclSum, communicator,
                       stream);
}

TEST_F(AbortsTest, EndsACollective) {
  std::vector<float> data(kLargeCount);
  AbortDuring([&] { return ReduceInPlace(&data, comms_[0]); }, ncclRemoteError);
}

TEST_F(AbortsTest, EndsAGroup) {
  std::vector<float> data(kLargeCount);
  AbortDuring(
      [&] {
        EXPECT_NCCL(ncclGroupStart());
        EXPECT_NCCL(ncclSend(data.data(), 10, ncclFloat, 1, comms_[0], nullptr));
        EXPECT_NCCL(ncclRecv(data.data() + 10, 10, ncclFloat, 1, comms_[0], nullptr));
        return ncclGroupEnd();
      },
      ncclRemoteError);
}

// The group waits for the other communicator's rank as well, and goes on to do so.
TEST_F(AbortsTest, DoesNotWaitForOtherCommunicatorsOfAGroup) {
  ncclComm_t others[2];
  ASSERT_NCCL(ncclCommInitAll(others, 2, nullptr));
  std::vector<float> data(kLargeCount, 1.0f);
  std::vector<float> other_data(kLargeCount, 1.0f);
  std::vector<float> peer_data(kLargeCount, 2.0f);
  ncclResult_t result = ncclSuccess;
  std::thread inside([&] {
    EXPECT_NCCL(ncclGroupStart());
    EXPECT_NCCL(ReduceInPlace(&other_data, others[0]));
    EXPECT_NCCL(ReduceInPlace(&data, comms_[0]));
    result = ncclGroupEnd();
  });
  std::this_thread::sleep_for(kUntilItWaits);
  const auto start = steady_clock::now();
  EXPECT_NCCL(ncclCommAbort(comms_[0]));
  EXPECT_LT(steady_clock::now() - start, kPromptly);
  EXPECT_NCCL(ReduceInPlace(&peer_data, others[1]));
  inside.join();
  comms_[0] = nullptr;
  EXPECT_EQ(result, ncclRemoteError);
  EXPECT_EQ(other_data, std::vector<float>(kLargeCount, 3.0f));
  for (const ncclComm_t comm : others) EXPECT_NCCL(ncclCommDestroy(comm));
}

TEST_F(AbortsTest, EndsASplitOfTheSameCommunicator) {
  ncclComm_t part = nullptr;
  AbortDuring([&] { return ncclCommSplit(comms_[0], 0, 0, &part, nullptr); }, ncclRemoteError);
  EXPECT_EQ(part, nullptr);
}

TEST_F(AbortsTest, EndsAFinalize) {
  std::vector<float> data(kLargeCount);
  void* memory = nullptr;
  ASSERT_NCCL(ncclMemAlloc(&memory, kLargeCount * sizeof(float)));
  cudaStream_t stream;
  ASSERT_NCCL(hzStreamCreate(&stream));
  ASSERT_NCCL(ncclAllReduce(memory, memory, kLargeCount, ncclFloat, ncclSum, comms_[0], stream));
  AbortDuring([&] { return ncclCommFinalize(comms_[0]); }, ncclRemoteError);
  EXPECT_EQ(hzStreamDestroy(stream), ncclRemoteError);
  EXPECT_NCCL(ncclMemFree(memory));
}

TEST_F(AbortsTest, EndsADestroy) {
  void* memory = nullptr;
  ASSERT_NCCL(ncclMemAlloc(&memory, kLargeCount * sizeof(float)));
  cudaStream_t stream;
  ASSERT_NCCL(hzStreamCreate(&stream));
  ASSERT_NCCL(ncclAllReduce(memory, memory, kLargeCount, ncclFloat, ncclSum, comms_[0], stream));
  AbortDuring([&] { return ncclCommDestroy(comms_[0]); }, ncclRemoteError);
  EXPECT_EQ(hzStreamDestroy(stream), ncclRemoteError);
  EXPECT_NCCL(ncclMemFree(memory));
}

// What a program keeps in its memory is no business of those who end communicators.
TEST_F(AbortsTest, DoesNotWaitForMemoryThatIsBeingFreed) {
  void* memory = nullptr;
  ASSERT_NCCL(ncclMemAlloc(&memory, kLargeCount * sizeof(float)));
  cudaStream_t stream;
  ASSERT_NCCL(hzStreamCreate(&stream));
  ASSERT_NCCL(ncclAllReduce(memory, memory, kLargeCount, ncclFloat, ncclSum, comms_[0], stream));
  AbortDuring([&] { return ncclMemFree(memory); }, ncclSuccess);
  EXPECT_EQ(hzStreamDestroy(stream), ncclRemoteError);
}

// The stream's operation before it belongs to a communicator that nobody aborts.
// Its memory may be freed at once, whatever is on the stream before.
TEST_F(AbortsTest, DoesNotWaitForOthersOnAStream) {
  ncclComm_t others[2];
  ASSERT_NCCL(ncclCommInitAll(others, 2, nullptr));
  cudaStream_t stream;
  ASSERT_NCCL(hzStreamCreate(&stream));
  std::vector<float> awaited(kLargeCount);
  ASSERT_NCCL(ReduceInPlace(&awaited, others[0], stream));
  {
    std::vector<float> whole(10);
    std::vector<float> sliced(4 * kLargeCount);
    ASSERT_NCCL(ReduceInPlace(&whole, comms_[0], stream));
    ASSERT_NCCL(ReduceInPlace(&sliced, comms_[0], stream));
    const auto start = steady_clock::now();
    EXPECT_NCCL(ncclCommAbort(std::exchange(comms_[0], nullptr)));
    EXPECT_LT(steady_clock::now() - start, kPromptly);
  }
  // Nobody can tell what is on the stream from outside, but that it is not done.
  EXPECT_EQ(hzStreamQuery(stream), ncclInProgress);
  for (const ncclComm_t comm : others) EXPECT_NCCL(ncclCommAbort(comm));
  EXPECT_EQ(hzStreamDestroy(stream), ncclRemoteError);
}

/// The handle that another thread is still in the call to make. It is there before the call
/// returns, as NCCL has it, but nothing orders the two.
__attribute__((no_sanitize("thread"))) ncclComm_t Peek(const volatile ncclComm_t& handle) {
  return handle;
}

TEST_F(AbortsTest, EndsAnInit) {
  ncclUniqueId id;
  ASSERT_NCCL(ncclGetUniqueId(&id));
  ncclComm_t forming = nullptr;
  ncclResult_t result = ncclSuccess;
  std::thread inside([&] { result = ncclCommInitRank(&forming, 2, id, 0); });
  std::this_thread::sleep_for(kUntilItWaits);
  const ncclComm_t handle = Peek(forming);
  ASSERT_NE(handle, nullptr);
  const auto start = steady_clock::now();
  EXPECT_NCCL(ncclCommAbort(handle));
  inside.join();
  EXPECT_LT(steady_clock::now() - start, kPromptly);
  EXPECT_EQ(result, ncclRemoteError);
  EXPECT_EQ(forming, nullptr);
}

// ---------------------------------------------------------------------------------------------
// Non-blocking communicators

/// One lock around all calls, as PyTorch keeps it.
std::mutex lock_of_calls;

template <typename Function>
ncclResult_t Locked(Function&& call) {
  const std::lock_guard lock(lock_of_calls);
  return call();
}

ncclResult_t State(ncclComm_t communicator) {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = Locked([&] { return ncclCommGetAsyncError(communicator, &state); });
  return asked == ncclSuccess ? state : asked;
}

/// What a call has come to in the end, as programs ask for it.
ncclResult_t Outcome(ncclComm_t communicator, ncclResult_t called) {
  while (called == ncclInProgress) {
    called = State(communicator);
    std::this_thread::yield();
  }
  return called;
}

class NonBlockingTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { daemon_ = new DaemonProcess(); }
  static void TearDownTestSuite() { delete daemon_; }

  void SetUp() override {
    ncclUniqueId id;
    ASSERT_NCCL(ncclGetUniqueId(&id));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    for (int rank = 0; rank < 2; ++rank) {
      const ncclResult_t called = ncclCommInitRankConfig(&comms_[rank], 2, id, rank, &config);
      EXPECT_TRUE(called == ncclSuccess || called == ncclInProgress);
    }
    for (const ncclComm_t comm : comms_) ASSERT_EQ(Outcome(comm, ncclInProgress), ncclSuccess);
  }
  void TearDown() override {
    for (const ncclComm_t comm : comms_) EXPECT_NCCL(ncclCommAbort(comm));
  }

  static DaemonProcess* daemon_;
  ncclComm_t comms_[2] = {};
};
DaemonProcess* NonBlockingTest::daemon_ = nullptr;

// A pointer that is no stream of ours, as a program's of CUDA is.
cudaStream_t ForeignStream() {
  static int anything = 0;
  return reinterpret_cast<cudaStream_t>(&anything);
}

TEST_F(NonBlockingTest, HeapMemoryIsThereWhenTheStateSaysSo) {
  for (const cudaStream_t stream : {cudaStream_t{nullptr}, ForeignStream()}) {
    std::vector<float> data[2] = {std::vector<float>(kLargeCount, 1.0f),
                                  std::vector<float>(kLargeCount, 2.0f)};
    // The other rank has not come, so nobody could wait here for the end.
    ASSERT_EQ(ReduceInPlace(&data[0], comms_[0], stream), ncclInProgress);
    EXPECT_EQ(State(comms_[0]), ncclInProgress);
    EXPECT_EQ(data[0], std::vector<float>(kLargeCount, 1.0f));
    const ncclResult_t called = ReduceInPlace(&data[1], comms_[1], stream);
    for (const int rank : {0, 1}) {
      EXPECT_EQ(Outcome(comms_[rank], rank == 0 ? ncclInProgress : called), ncclSuccess);
      EXPECT_EQ(data[rank], std::vector<float>(kLargeCount, 3.0f));
    }
  }
}

TEST_F(NonBlockingTest, AGroupOfManyIsPolledAsOne) {
  constexpr int kCount = 500;
  std::vector<int> sent[2];
  std::vector<int> received[2];
  ncclResult_t called[2];
  for (const int rank : {0, 1}) {
    sent[rank].resize(kCount);
    std::iota(sent[rank].begin(), sent[rank].end(), 1000 * rank);
    received[rank].resize(kCount);
    ASSERT_NCCL(ncclGroupStart());
    for (int i = 0; i < kCount; ++i) {
      ncclSend(&sent[rank][i], 1, ncclInt, 1 - rank, comms_[rank], nullptr);
      ncclRecv(&received[rank][i], 1, ncclInt, 1 - rank, comms_[rank], nullptr);
    }
    called[rank] = ncclGroupEnd();
  }
  EXPECT_EQ(called[0], ncclInProgress);
  for (const int rank : {0, 1}) {
    EXPECT_EQ(Outcome(comms_[rank], called[rank]), ncclSuccess);
    EXPECT_EQ(received[rank], sent[1 - rank]);
  }
}

// A program that knows that the operation must be done need not ask.
TEST_F(NonBlockingTest, TheNextCallFindsTheLastOneDone) {
  std::vector<float> data[2] = {std::vector<float>(kLargeCount, 1.0f),
                                std::vector<float>(kLargeCount, 2.0f)};
  ASSERT_EQ(ReduceInPlace(&data[0], comms_[0]), ncclInProgress);
  EXPECT_EQ(Outcome(comms_[1], ReduceInPlace(&data[1], comms_[1])), ncclSuccess);
  std::vector<float> more[2] = {std::vector<float>(10, 1.0f), std::vector<float>(10, 1.0f)};
  ncclResult_t called = ncclInvalidArgument;
  while (called == ncclInvalidArgument) called = ReduceInPlace(&more[0], comms_[0]);
  EXPECT_EQ(data[0], std::vector<float>(kLargeCount, 3.0f));
  EXPECT_EQ(Outcome(comms_[1], ReduceInPlace(&more[1], comms_[1])), ncclSuccess);
  EXPECT_EQ(Outcome(comms_[0], called), ncclSuccess);
  EXPECT_EQ(more[0][0], 2.0f);
}

TEST_F(NonBlockingTest, DestroyingBringsTheData) {
  std::vector<float> data[2] = {std::vector<float>(kLargeCount, 1.0f),
                                std::vector<float>(kLargeCount, 2.0f)};
  ASSERT_EQ(ReduceInPlace(&data[0], comms_[0]), ncclInProgress);
  EXPECT_EQ(Outcome(comms_[1], ReduceInPlace(&data[1], comms_[1])), ncclSuccess);
  EXPECT_NCCL(ncclCommDestroy(std::exchange(comms_[0], nullptr)));
  EXPECT_EQ(data[0], std::vector<float>(kLargeCount, 3.0f));
}

// A blocking communicator's operation in the same group is done when the group ends.
TEST_F(NonBlockingTest, AGroupWaitsForBlockingCommunicators) {
  ncclComm_t blocking = nullptr;
  ASSERT_NCCL(ncclCommInitAll(&blocking, 1, nullptr));
  std::vector<float> data(kLargeCount, 1.0f);
  std::vector<float> alone(kLargeCount, 5.0f);
  std::vector<float> result(kLargeCount);
  ASSERT_NCCL(ncclGroupStart());
  ReduceInPlace(&data, comms_[0]);
  ncclAllReduce(alone.data(), result.data(), kLargeCount, ncclFloat, ncclSum, blocking, nullptr);
  EXPECT_EQ(ncclGroupEnd(), ncclInProgress);
  EXPECT_EQ(result, alone);
  EXPECT_NCCL(ncclCommDestroy(blocking));
}

TEST_F(NonBlockingTest, AnErrorIsToldByTheState) {
  std::vector<float> data[2] = {std::vector<float>(kLargeCount, 1.0f),
                                std::vector<float>(kLargeCount - 1, 1.0f)};
  ASSERT_EQ(ReduceInPlace(&data[0], comms_[0]), ncclInProgress);
  const ncclResult_t called = ReduceInPlace(&data[1], comms_[1]);
  EXPECT_EQ(Outcome(comms_[0], ncclInProgress), ncclInvalidUsage);
  EXPECT_EQ(Outcome(comms_[1], called), ncclInvalidUsage);
  EXPECT_EQ(data[0], std::vector<float>(kLargeCount, 1.0f));
}

/// `post` starts what waits for the other rank, in a thread that polls as PyTorch does; a second
/// thread aborts. Both hold the lock for each call.
void AbortUnderOneLock(ncclComm_t* communicator, const std::function<ncclResult_t()>& post) {
  std::atomic<bool> aborted{false};
  std::thread poller([&] {
    ncclResult_t state = Locked(post);
    EXPECT_EQ(state, ncclInProgress);
    while (state == ncclInProgress) {
      const std::lock_guard lock(lock_of_calls);
      if (aborted) return;  // the handle is gone
      EXPECT_NCCL(ncclCommGetAsyncError(*communicator, &state));
    }
    ADD_FAILURE() << "ended with " << state;
  });
  std::this_thread::sleep_for(kUntilItWaits);
  const auto start = steady_clock::now();
  EXPECT_NCCL(Locked([&] {
    aborted = true;
    return ncclCommAbort(std::exchange(*communicator, nullptr));
  }));
  poller.join();
  EXPECT_LT(steady_clock::now() - start, kPromptly);
}

TEST_F(NonBlockingTest, AbortNeedsNoLockOfAWaitingCollective) {
  std::vector<float> data(kLargeCount, 1.0f);
  AbortUnderOneLock(&comms_[0], [&] { return ReduceInPlace(&data, comms_[0]); });
  EXPECT_EQ(data, std::vector<float>(kLargeCount, 1.0f));
  EXPECT_EQ(State(comms_[1]), ncclRemoteError);
}

TEST_F(NonBlockingTest, AbortNeedsNoLockOfAWaitingGroup) {
  std::vector<float> data(100, 1.0f);
  AbortUnderOneLock(&comms_[0], [&] {
    EXPECT_NCCL(ncclGroupStart());
    ncclSend(data.data(), 10, ncclFloat, 1, comms_[0], ForeignStream());
    ncclRecv(data.data() + 10, 10, ncclFloat, 1, comms_[0], ForeignStream());
    return ncclGroupEnd();
  });
}

TEST_F(NonBlockingTest, AbortNeedsNoLockOfAWaitingFinalize) {
  void* memory = nullptr;
  ASSERT_NCCL(ncclMemAlloc(&memory, kLargeCount * sizeof(float)));
  cudaStream_t stream;
  ASSERT_NCCL(hzStreamCreate(&stream));
  ASSERT_NCCL(ncclAllReduce(memory, memory, kLargeCount, ncclFloat, ncclSum, comms_[0], stream));
  AbortUnderOneLock(&comms_[0], [&] { return ncclCommFinalize(comms_[0]); });
  EXPECT_EQ(hzStreamDestroy(stream), ncclRemoteError);
  EXPECT_NCCL(ncclMemFree(memory));
}

TEST_F(NonBlockingTest, AbortNeedsNoLockOfAWaitingSplit) {
  ncclComm_t part = nullptr;
  AbortUnderOneLock(&part, [&] { return ncclCommSplit(comms_[0], 0, 0, &part, nullptr); });
}

TEST_F(NonBlockingTest, AbortNeedsNoLockOfAWaitingInit) {
  ncclUniqueId id;
  ASSERT_NCCL(ncclGetUniqueId(&id));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t forming = nullptr;
  AbortUnderOneLock(&forming, [&] { return ncclCommInitRankConfig(&forming, 2, id, 0, &config); });
}

// Two threads ask for the state while the data comes.
TEST_F(NonBlockingTest, AnyThreadMayAsk) {
  for (int round = 0; round < (kSanitized ? 5 : 30); ++round) {
    std::vector<float> data[2] = {std::vector<float>(kLargeCount, 1.0f),
                                  std::vector<float>(kLargeCount, 2.0f)};
    ASSERT_EQ(ReduceInPlace(&data[0], comms_[0]), ncclInProgress);
    const auto ask = [&] {
      ncclResult_t state = ncclInProgress;
      while (state == ncclInProgress) EXPECT_NCCL(ncclCommGetAsyncError(comms_[0], &state));
      EXPECT_EQ(state, ncclSuccess);
    };
    std::thread one(ask);
    std::thread other(ask);
    const ncclResult_t called = ReduceInPlace(&data[1], comms_[1]);
    EXPECT_EQ(Outcome(comms_[1], called), ncclSuccess);
    one.join();
    other.join();
    EXPECT_EQ(data[0], std::vector<float>(kLargeCount, 3.0f));
  }
}

}  // namespace
}  // namespace harmonaize::testing

// More operations under way than the daemon holds for one process: none of them costs a process
// its connection.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <string>
#include <vector>

#include "harmonaize.h"
#include "tests/support/daemon_process.h"
#include "tests/support/rank_runner.h"
#include "tests/support/sanitized.h"

namespace harmonaize::testing {
namespace {

/// Messages of one direction: more than the daemon holds for one process.
constexpr int kManyMessages = kSanitized ? 9'000 : 70'000;

/// The daemon's default of 65,536 operations; fewer where sanitizers make each of them slow.
const char* OperationsConfig() {
  return kSanitized ? "[quota]\noutstanding_operations = 8192\n" : "";
}

/// Shared memory for `count` numbers.
class Numbers {
 public:
  explicit Numbers(int count) : count_(count) {
    void* memory = nullptr;
    EXPECT_NCCL(ncclMemAlloc(&memory, static_cast<size_t>(count) * sizeof(int)));
    first_ = static_cast<int*>(memory);
  }
  ~Numbers() { EXPECT_NCCL(ncclMemFree(first_)); }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;

  int* at(int index) { return first_ + index; }
  /// Number i is `first` + i * `step`.
  void Fill(int first, int step) {
    for (int i = 0; i < count_; ++i) first_[i] = first + i * step;
  }
  /// How many numbers are other than Fill would make them.
  int CountOthers(int first, int step) const {
    int others = 0;
    for (int i = 0; i < count_; ++i) others += first_[i] != first + i * step ? 1 : 0;
    return others;
  }

 private:
  const int count_;
  int* first_ = nullptr;
};

void SendAll(Numbers* numbers, int count, int peer, ncclComm_t communicator) {
  for (int i = 0; i < count; ++i) {
    ASSERT_NCCL(ncclSend(numbers->at(i), 1, ncclInt, peer, communicator, nullptr));
  }
}

void ReceiveAll(Numbers* numbers, int count, int peer, ncclComm_t communicator) {
  for (int i = 0; i < count; ++i) {
    ASSERT_NCCL(ncclRecv(numbers->at(i), 1, ncclInt, peer, communicator, nullptr));
  }
}

/// A group in which this rank exchanges messages with the other one of two: all sends first.
void Exchange(int rank, int messages, ncclComm_t communicator) {
  Numbers sent(messages);
  Numbers received(messages);
  sent.Fill(rank + 1, 2);
  received.Fill(-1, 0);
  ASSERT_NCCL(ncclGroupStart());
  SendAll(&sent, messages, 1 - rank, communicator);
  ReceiveAll(&received, messages, 1 - rank, communicator);
  ASSERT_NCCL(ncclGroupEnd());
  EXPECT_EQ(received.CountOthers(2 - rank, 2), 0);
}

int Sum(ncclComm_t communicator) {
  int one = 1;
  int sum = 0;
  EXPECT_NCCL(ncclAllReduce(&one, &sum, 1, ncclInt, ncclSum, communicator, nullptr));
  return sum;
}

TEST(ManyOperations, MessagesBetweenRanksOfOneThread) {
  const DaemonProcess daemon(OperationsConfig());
  ncclComm_t communicators[2];
  ASSERT_NCCL(ncclCommInitAll(communicators, 2, nullptr));
  Numbers sent(kManyMessages);
  Numbers received(kManyMessages);
  sent.Fill(7, 3);
  ASSERT_NCCL(ncclGroupStart());
  SendAll(&sent, kManyMessages, 1, communicators[0]);
  ReceiveAll(&received, kManyMessages, 0, communicators[1]);
  ASSERT_NCCL(ncclGroupEnd());
  EXPECT_EQ(received.CountOthers(7, 3), 0);
  for (const ncclComm_t communicator : communicators) EXPECT_NCCL(ncclCommDestroy(communicator));
}

TEST(ManyOperations, MessagesBetweenProcesses) {
  const DaemonProcess daemon(OperationsConfig());
  const std::vector<int> statuses = RunAsProcesses(2, [](int rank) {
    ncclComm_t communicator;
    if (JoinNamed("many", 2, rank, &communicator) != ncclSuccess) return 2;
    Exchange(rank, kManyMessages, communicator);
    if (Sum(communicator) != 2) return 3;
    return ncclCommDestroy(communicator) == ncclSuccess ? 0 : 4;
  });
  for (const int status : statuses) EXPECT_EQ(status, 0) << WEXITSTATUS(status);
  unsetenv("NCCL_COMM_ID");
}

/// As nccl-tests do with -t 4 -m: every thread's groups go to its stream, and nobody waits between
/// them.
void ReduceWithoutWaiting(int groups, int operations, ncclComm_t communicator) {
  Numbers numbers(operations);
  numbers.Fill(1, 1);
  cudaStream_t stream;
  ASSERT_NCCL(hzStreamCreate(&stream));
  for (int group = 0; group < groups; ++group) {
    ASSERT_NCCL(ncclGroupStart());
    for (int i = 0; i < operations; ++i) {
      ASSERT_NCCL(
          ncclAllReduce(numbers.at(i), numbers.at(i), 1, ncclInt, ncclMax, communicator, stream));
    }
    ASSERT_NCCL(ncclGroupEnd());
  }
  ASSERT_NCCL(hzStreamSynchronize(stream));
  ASSERT_NCCL(hzStreamDestroy(stream));
  EXPECT_EQ(numbers.CountOthers(1, 1), 0);
}

TEST(ManyOperations, CollectivesOfFourThreads) {
  const DaemonProcess daemon(OperationsConfig());
  constexpr int kOperations = kSanitized ? 3'000 : 30'000;
  RunAsThreads(4, [](int, ncclComm_t communicator) {
    ReduceWithoutWaiting(3, kOperations, communicator);
    EXPECT_EQ(Sum(communicator), 4);
  });
}

// With room for a few operations of each rank, whatever ranks do in groups still goes on.
TEST(ManyOperations, ThatFindLittleRoom) {
  const DaemonProcess daemon("[quota]\noutstanding_operations = 12\n");
  RunAsThreads(2, [](int rank, ncclComm_t communicator) {
    ReduceWithoutWaiting(2, 500, communicator);
    Exchange(rank, 500, communicator);
    EXPECT_EQ(Sum(communicator), 2);
  });
}

/// What a group of one thread asks for: an all-reduce of both ranks, and with `messages` a message
/// in either direction.
ncclResult_t GroupOfBoth(ncclComm_t (&communicators)[2], bool messages) {
  static int values[6];
  EXPECT_NCCL(ncclGroupStart());
  for (int rank = 0; rank < 2; ++rank) {
    const ncclComm_t communicator = communicators[rank];
    int* const own = &values[3 * rank];
    EXPECT_NCCL(ncclAllReduce(own, own, 1, ncclInt, ncclMax, communicator, nullptr));
    if (!messages) continue;
    EXPECT_NCCL(ncclSend(own + 1, 1, ncclInt, 1 - rank, communicator, nullptr));
    EXPECT_NCCL(ncclRecv(own + 2, 1, ncclInt, 1 - rank, communicator, nullptr));
  }
  return ncclGroupEnd();
}

// All six have to be under way at once, and the daemon holds no more than four.
TEST(ManyOperations, AGroupThatCannotBeHeldIsRefused) {
  const DaemonProcess daemon("[quota]\noutstanding_operations = 4\n");
  setenv("HARMONAIZE_INLINE", "0", 1);
  ncclComm_t communicators[2];
  ASSERT_NCCL(ncclCommInitAll(communicators, 2, nullptr));
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(GroupOfBoth(communicators, true), ncclInvalidUsage);
    const std::string told = ncclGetLastError(nullptr);
    EXPECT_NE(told.find("6 operations"), std::string::npos) << told;
    EXPECT_NE(told.find("outstanding_operations"), std::string::npos) << told;
    EXPECT_NCCL(GroupOfBoth(communicators, false));
  }
  unsetenv("HARMONAIZE_INLINE");
  for (const ncclComm_t communicator : communicators) EXPECT_NCCL(ncclCommDestroy(communicator));
}

}  // namespace
}  // namespace harmonaize::testing

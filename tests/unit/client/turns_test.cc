// How operations find room at the daemon, and in which order where there is little.

#include "src/client/inline/turns.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "src/client/session/operation_room.h"

namespace harmonaize {
namespace {

/// A communicator's address is all that counts.
Communicator* NumberedCommunicator(uintptr_t number) {
  return reinterpret_cast<Communicator*>(number * 64);
}

Operation OperationOf(uintptr_t communicator, Collective collective, int peer = 0) {
  Operation operation;
  operation.communicator = NumberedCommunicator(communicator);
  operation.collective = collective;
  operation.root = peer;
  return operation;
}

Turns TurnsOf(const std::vector<Operation>& operations) {
  std::vector<const Operation*> pointers;
  for (const Operation& operation : operations) pointers.push_back(&operation);
  return Turns::Of(pointers);
}

TEST(Turns, SendsAndReceivesTakeTurns) {
  const Turns turns =
      TurnsOf({OperationOf(1, Collective::kSend, 1), OperationOf(1, Collective::kSend, 1),
               OperationOf(1, Collective::kSend, 2), OperationOf(1, Collective::kReceive, 1),
               OperationOf(1, Collective::kReceive, 1), OperationOf(1, Collective::kReceive, 2)});
  EXPECT_EQ(turns.lanes, 4u);
  EXPECT_EQ(turns.turns, (std::vector<uint32_t>{0, 1, 0, 0, 1, 0}));
  EXPECT_EQ(turns.order, (std::vector<size_t>{0, 2, 3, 5, 1, 4}));
}

// Ranks count all of them alike, whatever they are.
TEST(Turns, CollectivesKeepTheirOrder) {
  const Turns turns =
      TurnsOf({OperationOf(1, Collective::kAllReduce), OperationOf(1, Collective::kBroadcast, 3),
               OperationOf(1, Collective::kBroadcast, 0), OperationOf(2, Collective::kAllReduce),
               OperationOf(2, Collective::kAllReduce)});
  EXPECT_EQ(turns.lanes, 2u);
  EXPECT_EQ(turns.order, (std::vector<size_t>{0, 3, 1, 4, 2}));
}

class OperationRoomTest : public ::testing::Test {
 protected:
  void SetLimit(uint64_t limit) { room_.SetUp(limit, &retired_); }
  void Retire(uint64_t operations) { retired_.completed += operations; }

  StreamSlot retired_{};
  OperationRoom room_;
};

TEST_F(OperationRoomTest, WhoComesFirstGetsHalf) {
  SetLimit(100);
  EXPECT_TRUE(room_.Take(30));
  EXPECT_FALSE(room_.Take(21));
  EXPECT_TRUE(room_.Take(20));
  EXPECT_FALSE(room_.Take(1));
  Retire(3);
  EXPECT_TRUE(room_.Take(3));
  EXPECT_FALSE(room_.Take(1));
}

TEST_F(OperationRoomTest, EveryQueueHasAWindow) {
  SetLimit(10);
  EXPECT_TRUE(room_.Take(5));
  EXPECT_FALSE(room_.TakeInWindow(1, 2, 2)) << "its window is full";
  for (int taken = 5; taken < 10; ++taken) EXPECT_TRUE(room_.TakeInWindow(1, 0, 1));
  EXPECT_FALSE(room_.TakeInWindow(1, 0, 1)) << "the daemon would cut the session off";
  Retire(1);
  EXPECT_TRUE(room_.TakeInWindow(1, 0, 1));
}

TEST_F(OperationRoomTest, WhatIsNotPostedIsGivenBack) {
  SetLimit(10);
  EXPECT_TRUE(room_.Take(5));
  room_.GiveBack(2);
  EXPECT_TRUE(room_.Take(2));
  EXPECT_FALSE(room_.Take(1));
}

TEST_F(OperationRoomTest, ThereIsRoomForOneAtLeast) {
  SetLimit(1);
  EXPECT_TRUE(room_.Take(1));
  EXPECT_FALSE(room_.TakeAny(1));
  EXPECT_EQ(room_.least_window(), 1u);
}

// Never are more under way than the limit says, whoever takes at the same time.
TEST_F(OperationRoomTest, IsNeverOverdrawn) {
  constexpr uint64_t kLimit = 64;
  constexpr int kThreads = 4;
  constexpr int kEach = 50'000;
  SetLimit(kLimit);
  std::atomic<int64_t> under_way{0};
  std::atomic<int64_t> most{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&] {
      for (int taken = 0; taken < kEach;) {
        if (!room_.TakeAny(3)) {
          std::this_thread::yield();
          continue;
        }
        ++taken;
        const int64_t now = under_way += 3;
        for (int64_t seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
        }
        under_way -= 3;
        Retire(3);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(most, static_cast<int64_t>(kLimit));
  EXPECT_EQ(retired_.completed, uint64_t{3} * kThreads * kEach);
}

}  // namespace
}  // namespace harmonaize

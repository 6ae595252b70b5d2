// How a thread sleeps until a stream has come far enough: MarkAwaited and TakeReachedMark.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "src/base/futex.h"
#include "src/ipc/session_segment.h"

namespace harmonaize {
namespace {

TEST(StreamSlot, TheFirstPositionThatIsAwaitedStaysMarked) {
  StreamSlot slot{};
  EXPECT_EQ(MarkAwaited(&slot, 10), 10u);
  EXPECT_EQ(MarkAwaited(&slot, 12), 10u);
  EXPECT_EQ(MarkAwaited(&slot, 7), 7u);
  EXPECT_EQ(MarkAwaited(&slot, 10), 7u);
  EXPECT_FALSE(TakeReachedMark(&slot, 7)) << "nobody sleeps";
  slot.waiters = 1;
  EXPECT_FALSE(TakeReachedMark(&slot, 6));
  EXPECT_TRUE(TakeReachedMark(&slot, 7));
  EXPECT_FALSE(TakeReachedMark(&slot, 8)) << "taken";
}

TEST(StreamSlot, WhoLeavesTakesTheMarkAlong) {
  StreamSlot slot{};
  slot.waiters = 1;
  EXPECT_FALSE(LeaveMark(&slot, MarkAwaited(&slot, 10))) << "alone";
  EXPECT_EQ(slot.awaited.load(), 0u);
  slot.waiters = 2;
  const uint32_t word = MarkAwaited(&slot, 10);
  EXPECT_TRUE(LeaveMark(&slot, word)) << "another may sleep on this mark";
  EXPECT_EQ(slot.awaited.load(), 0u);
  slot.waiters = 2;
  EXPECT_FALSE(LeaveMark(&slot, word)) << "it was taken";
}

TEST(StreamSlot, PositionsGoBeyond32Bits) {
  constexpr uint64_t kRound = uint64_t{1} << 32;
  StreamSlot slot{};
  slot.waiters = 1;
  MarkAwaited(&slot, kRound + 5);
  EXPECT_FALSE(TakeReachedMark(&slot, kRound - 1));
  EXPECT_FALSE(TakeReachedMark(&slot, kRound + 4));
  EXPECT_TRUE(TakeReachedMark(&slot, kRound + 5));
  // 0 stands for no mark.
  EXPECT_NE(MarkAwaited(&slot, kRound), 0u);
  EXPECT_TRUE(TakeReachedMark(&slot, kRound));
}

/// Waits as a tenant does. False when nobody has woken it for half a minute: a lost wake-up.
bool SleepUntil(StreamSlot* slot, uint64_t position) {
  constexpr uint64_t kHopeless = 30'000'000'000;
  slot->waiters.fetch_add(1, std::memory_order_seq_cst);
  bool woken = true;
  uint32_t word = 0;
  while (woken) {
    word = MarkAwaited(slot, position);
    if (slot->completed.load(std::memory_order_seq_cst) >= position) break;
    const uint64_t start = MonotonicNanoseconds();
    FutexWaitShared(&slot->awaited, word, kHopeless);
    woken = MonotonicNanoseconds() - start < kHopeless;
  }
  if (LeaveMark(slot, word)) FutexWakeAllShared(&slot->awaited);
  return woken;
}

/// Threads that wait for every first, second, fifth ... position, and a daemon that goes on only
/// when all that it has completed something for have seen it: one lost wake-up, and all stop.
TEST(StreamSlot, NobodyIsForgotten) {
  constexpr uint64_t kPositions = 5000;
  constexpr std::array<uint64_t, 4> kStrides = {1, 2, 5, 1};
  auto slot = std::make_unique<StreamSlot>();
  std::array<std::atomic<uint64_t>, kStrides.size()> seen{};
  std::atomic<bool> lost{false};
  std::vector<std::thread> tenants;
  for (size_t i = 0; i < kStrides.size(); ++i) {
    tenants.emplace_back([&, i] {
      for (uint64_t p = kStrides[i]; p <= kPositions && !lost; p += kStrides[i]) {
        if (!SleepUntil(slot.get(), p)) lost = true;
        seen[i] = p;
      }
    });
  }
  for (uint64_t position = 1; position <= kPositions && !lost; ++position) {
    slot->completed.store(position, std::memory_order_seq_cst);
    if (TakeReachedMark(slot.get(), position)) FutexWakeAllShared(&slot->awaited);
    for (size_t i = 0; i < kStrides.size(); ++i) {
      while (seen[i] < position / kStrides[i] * kStrides[i] && !lost) std::this_thread::yield();
    }
  }
  for (std::thread& tenant : tenants) tenant.join();
  EXPECT_FALSE(lost);
}

}  // namespace
}  // namespace harmonaize

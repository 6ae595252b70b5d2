#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "src/executor/host/parking.h"
#include "src/executor/host/work_board.h"
#include "src/schedule/algorithms/one_host.h"

namespace harmonaize {
namespace {

constexpr uint64_t kAllSlots = ~uint64_t{0};
constexpr Machine kMachine{.workers = 1, .cache_bytes = 1 << 20, .last_level_bytes = 32 << 20};

// A broadcast cut into some units; nobody runs them here.
class BoundExecution {
 public:
  explicit BoundExecution(uint64_t count, bool helpable = false, int node = -1) {
    const Schedule& schedule = Program();
    const MemoryView buffer{&memory_};
    const std::array<MemoryView, 2> buffers = {buffer, buffer};
    Binding binding;
    binding.program = &schedule.programs[0];
    binding.type = DataType::kUint8;
    binding.count = count;
    binding.inputs = buffers;
    binding.outputs = buffers;
    binding.helpable = helpable;
    binding.node = node;
    EXPECT_TRUE(execution.Bind(binding, kMachine).ok());
  }

  Execution execution;

 private:
  static const Schedule& Program() {
    static const Schedule schedule = OneHost(Collective::kBroadcast, 2, 0, false);
    return schedule;
  }
  std::byte memory_{};
};

TEST(WorkBoard, HandsOutEveryUnitOnceFromBothEnds) {
  WorkBoard board;
  BoundExecution bound(8 << 20);
  const uint32_t units = bound.execution.units();
  ASSERT_GT(units, 4u);
  EXPECT_FALSE(board.AnyWork());
  ASSERT_TRUE(board.Post(&bound.execution));
  EXPECT_TRUE(board.AnyWork());
  WorkBoard::Cursor front;
  WorkBoard::Cursor back{.slot = 0, .from_the_end = true};
  std::set<uint32_t> taken;
  EXPECT_EQ(board.Take(kAllSlots, front)->index, 0u);
  EXPECT_EQ(board.Take(kAllSlots, back)->index, units - 1);
  EXPECT_EQ(board.Take(kAllSlots, front)->index, 1u);
  for (uint32_t i = 3; i < units; ++i) {
    const auto unit = board.Take(kAllSlots, i % 2 == 0 ? front : back);
    ASSERT_TRUE(unit);
    EXPECT_EQ(unit->left, units - i - 1);
    EXPECT_TRUE(taken.insert(unit->index).second);
  }
  EXPECT_FALSE(board.Take(kAllSlots, front));
  EXPECT_FALSE(board.AnyWork());
}

TEST(WorkBoard, KnowsWhoseMemoryIsElsewhere) {
  WorkBoard board(0b101);  // threads near nodes 0 and 2
  BoundExecution on_0(1000, false, 0);
  BoundExecution on_2(1000, false, 2);
  BoundExecution on_1(1000, false, 1);  // where no thread is: nobody's, so everybody's
  BoundExecution anywhere(1000);
  BoundExecution beyond(1000, false, kMaxNodes);
  for (BoundExecution* bound : {&on_0, &on_2, &on_1, &anywhere, &beyond}) {
    ASSERT_TRUE(board.Post(&bound->execution));
  }
  // Slots are given in order.
  EXPECT_EQ(board.slots_away_from(0), 0b00010u);
  EXPECT_EQ(board.slots_away_from(2), 0b00001u);
  EXPECT_EQ(board.slots_away_from(-1), 0u);
  WorkBoard::Cursor cursor;
  std::set<Execution*> taken;
  while (const auto unit = board.Take(~board.slots_away_from(0), cursor)) {
    taken.insert(unit->execution);
  }
  EXPECT_EQ(taken, (std::set<Execution*>{&on_0.execution, &on_1.execution, &anywhere.execution,
                                         &beyond.execution}));
  // A slot's next execution says anew where it lies.
  board.Retire(&on_0.execution);
  BoundExecution next(1000);
  ASSERT_TRUE(board.Post(&next.execution));
  EXPECT_EQ(board.slots_away_from(2), 0u);
}

TEST(WorkBoard, ServesExecutionsInTurn) {
  WorkBoard board;
  std::vector<std::unique_ptr<BoundExecution>> bound;
  for (int i = 0; i < 3; ++i) {
    bound.push_back(std::make_unique<BoundExecution>(4 << 20));
    ASSERT_TRUE(board.Post(&bound.back()->execution));
  }
  WorkBoard::Cursor cursor;
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(board.Take(kAllSlots, cursor)->execution, &bound[i % 3]->execution);
  }
  // Those of one slot only, as Help asks.
  EXPECT_EQ(board.Take(2, cursor)->execution, &bound[1]->execution);
  EXPECT_EQ(board.helpable_slots(), 0u);
}

TEST(WorkBoard, HasRoomFor64) {
  WorkBoard board;
  std::vector<std::unique_ptr<BoundExecution>> bound;
  for (int i = 0; i < WorkBoard::kSlots; ++i) {
    bound.push_back(std::make_unique<BoundExecution>(100, i == 63));
    ASSERT_TRUE(board.Post(&bound.back()->execution));
  }
  EXPECT_EQ(board.helpable_slots(), uint64_t{1} << 63);
  BoundExecution one_more(100);
  EXPECT_FALSE(board.Post(&one_more.execution));
  EXPECT_EQ(board.TakeRest(bound[5]->execution), 1u);
  EXPECT_EQ(board.TakeRest(bound[5]->execution), 0u);
  board.Retire(&bound[5]->execution);
  EXPECT_TRUE(board.Post(&one_more.execution));
  board.Retire(&bound[63]->execution);
  EXPECT_EQ(board.helpable_slots(), 0u);
}

TEST(FinishedList, KeepsTheOrderAndLosesNothing) {
  FinishedList list;
  EXPECT_EQ(list.Pop(), nullptr);
  std::vector<Execution> executions(300);
  for (size_t i = 0; i < 3; ++i) list.Push(&executions[i]);
  EXPECT_EQ(list.Pop(), &executions[0]);
  list.Push(&executions[3]);
  for (size_t i = 1; i < 4; ++i) EXPECT_EQ(list.Pop(), &executions[i]);
  EXPECT_EQ(list.Pop(), nullptr);

  std::vector<std::thread> threads;
  for (size_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < 100; ++i) list.Push(&executions[t * 100 + i]);
    });
  }
  std::array<size_t, 3> next{};
  for (int popped = 0; popped < 300;) {
    Execution* execution = list.Pop();
    if (execution == nullptr) {
      std::this_thread::yield();
      continue;
    }
    const auto index = static_cast<size_t>(execution - executions.data());
    EXPECT_EQ(index % 100, next[index / 100]++);
    ++popped;
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Parking, NeverSleepsThroughWork) {
  Parking parking;
  std::atomic<int> work{0};
  std::atomic<bool> stop{false};
  std::atomic<int> done{0};
  std::vector<std::thread> workers;
  for (int w = 0; w < 2; ++w) {
    workers.emplace_back([&, w] {
      while (!stop.load()) {
        int available = work.load();
        while (available > 0 && !work.compare_exchange_weak(available, available - 1)) {
        }
        if (available > 0) {
          done.fetch_add(1);
        } else {
          parking.Park(w, [&] { return work.load() > 0 || stop.load(); });
        }
      }
    });
  }
  for (int i = 1; i <= 20'000; ++i) {
    work.fetch_add(1);
    parking.Wake(1);
    // A wake-up that got lost shows as a round that never ends.
    if (i % 3 == 0) {
      while (done.load() < i) std::this_thread::yield();
    }
  }
  stop.store(true);
  parking.Wake(kMaxWorkers);
  for (std::thread& worker : workers) worker.join();
  EXPECT_FALSE(parking.anyone_parked());
}

TEST(Parking, WakesNoMoreThanAsked) {
  Parking parking;
  std::atomic<int> awake{0};
  std::vector<std::thread> workers;
  for (int w = 0; w < 4; ++w) {
    workers.emplace_back([&, w] {
      parking.Park(w, [] { return false; });
      awake.fetch_add(1);
    });
  }
  // All four have parked once four can be woken.
  int woken = 0;
  while (woken < 2) woken += parking.Wake(2 - woken);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
  while (std::chrono::steady_clock::now() < deadline) EXPECT_LE(awake.load(), 2);
  while (woken < 4) woken += parking.Wake(4 - woken);
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(parking.Wake(4), 0);
}

}  // namespace
}  // namespace harmonaize

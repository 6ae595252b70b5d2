// How many threads work for a job at a time, where its operations have a bound.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "src/executor/host/job_bounds.h"
#include "src/executor/host/work_board.h"
#include "src/schedule/algorithms/one_host.h"
#include "tests/support/sanitized.h"
#include "tests/unit/executor/testing.h"

namespace harmonaize {
namespace {

constexpr uint64_t kAnySlot = ~uint64_t{0};
constexpr Machine kFourWorkers{.workers = 4, .cache_bytes = 1 << 20, .last_level_bytes = 32 << 20};
/// Work for all of them is cut into two shares at least.
constexpr Machine kTwoShares{.workers = 4, .processors = 2};

/// A broadcast of so many KiB: 512 are two units, and 8192 some dozens.
struct BoundedCopy {
  BoundedCopy(uint64_t kibibytes, uint64_t job, int most_workers,
              const Machine& machine = kFourWorkers, uint32_t tenant = 0) {
    const Schedule& schedule = Program();
    const MemoryView buffer{&memory};
    const std::array<MemoryView, 2> buffers = {buffer, buffer};
    Binding binding;
    binding.program = &schedule.programs[0];
    binding.type = DataType::kUint8;
    binding.count = kibibytes << 10;
    binding.inputs = buffers;
    binding.outputs = buffers;
    binding.tenant = tenant;
    binding.job = job;
    binding.most_workers = most_workers;
    EXPECT_TRUE(execution.Bind(binding, machine).ok());
    execution.cookie = this;
  }
  static const Schedule& Program() {
    static const Schedule schedule = OneHost(Collective::kBroadcast, 2, 0, false);
    return schedule;
  }

  std::byte memory{};
  Execution execution;
  std::atomic<int> running{0};
  std::atomic<uint32_t> done{0};
  std::array<std::atomic<bool>, 64> taken{};
};

TEST(Bound, CountsOnlyWhereThereAreMoreThreadsAndMoreUnits) {
  EXPECT_EQ(BoundedCopy(8192, 0, 0).execution.most_threads(), 0);
  EXPECT_EQ(BoundedCopy(8192, 0, 3).execution.most_threads(), 3);
  EXPECT_EQ(BoundedCopy(8192, 0, 4).execution.most_threads(), 4) << "the owner would be a fifth";
  EXPECT_EQ(BoundedCopy(8192, 0, 5).execution.most_threads(), 0);
  const BoundedCopy small(0, 0, 3);
  EXPECT_EQ(small.execution.units(), 0u);
  EXPECT_EQ(small.execution.most_threads(), 0);
}

TEST(Bound, CutsIntoSharesForSoMany) {
  CollectiveRun run({.collective = Collective::kAllReduce, .ranks = 2, .count = 100'000});
  Execution execution;
  ASSERT_TRUE(run.Bind(execution, kFourWorkers).ok());
  EXPECT_EQ(execution.units(), 4u);
  run.terms.most_workers = 2;
  ASSERT_TRUE(run.Bind(execution, kFourWorkers).ok());
  EXPECT_EQ(execution.units(), 2u);
  run.terms.most_workers = -1;
  EXPECT_EQ(run.Bind(execution, kFourWorkers).code(), Code::kInvalidArgument);
}

TEST(Permits, AreTakenWithUnitsAndGivenBack) {
  WorkBoard board;
  BoundedCopy copy(8192, 0, 2);
  const uint32_t units = copy.execution.units();
  ASSERT_GT(units, 4u);
  ASSERT_TRUE(board.Post(&copy.execution));
  WorkBoard::Cursor front;
  WorkBoard::Cursor back{.slot = 0, .from_the_end = true};
  std::set<uint32_t> taken;
  for (uint32_t left = units; left > 0; left -= 2) {
    EXPECT_TRUE(board.AnyWork());
    const auto one = board.Take(kAnySlot, front);
    const auto other = board.Take(kAnySlot, back);
    ASSERT_TRUE(one && other);
    EXPECT_EQ(one->permits, 1);
    EXPECT_EQ(other->permits, 0);
    EXPECT_EQ(other->left, left - 2);
    EXPECT_TRUE(taken.insert(one->index).second);
    EXPECT_TRUE(taken.insert(other->index).second);
    EXPECT_FALSE(board.AnyWork()) << "workers would not sleep";
    EXPECT_FALSE(board.Take(kAnySlot, front));
    board.GivePermitBack(*one);
    EXPECT_EQ(board.AnyWork(), left > 2);
    board.GivePermitBack(*other);
  }
  EXPECT_EQ(*taken.rbegin(), units - 1);
  EXPECT_FALSE(board.AnyWork());
}

TEST(Permits, AreNotCountedForAsManyUnits) {
  WorkBoard board;
  BoundedCopy copy(1024, 0, 4);
  ASSERT_EQ(copy.execution.units(), 4u);
  ASSERT_TRUE(board.Post(&copy.execution));
  WorkBoard::Cursor cursor;
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(board.Take(kAnySlot, cursor)->permits, WorkBoard::kUncounted);
  }
  EXPECT_FALSE(board.AnyWork());
}

TEST(Permits, OfUnitsThatRunOutliveTheRest) {
  WorkBoard board;
  BoundedCopy copy(8192, 0, 2);
  ASSERT_TRUE(board.Post(&copy.execution));
  WorkBoard::Cursor cursor;
  const auto one = board.Take(kAnySlot, cursor);
  const auto other = board.Take(kAnySlot, cursor);
  EXPECT_EQ(board.TakeRest(copy.execution), copy.execution.units() - 2);
  EXPECT_EQ(board.TakeRest(copy.execution), 0u);
  board.GivePermitBack(*one);
  EXPECT_FALSE(board.AnyWork());
  EXPECT_FALSE(board.Take(kAnySlot, cursor));
  board.GivePermitBack(*other);
  EXPECT_FALSE(board.AnyWork());
  // The slot's next execution has all of its own.
  board.Retire(&copy.execution);
  ASSERT_TRUE(board.Post(&copy.execution));
  EXPECT_EQ(board.Take(kAnySlot, cursor)->permits, 1);
}

/// Threads that take units of some executions, which are posted anew when they have ended. Each
/// unit takes at random nothing, a while, or a turn of the other threads.
class BoardUnderStress {
 public:
  explicit BoardUnderStress(const std::vector<int>& bounds) {
    for (const int bound : bounds) {
      copies_.push_back(std::make_unique<BoundedCopy>(8192, 0, bound));
    }
  }

  void Run(int threads, int rounds) {
    std::vector<std::thread> workers;
    for (int i = 0; i < threads; ++i) workers.emplace_back([this, i] { Work(i); });
    for (int round = 0; round < rounds; ++round) RunRound();
    stop_.store(true);
    for (std::thread& worker : workers) worker.join();
    EXPECT_FALSE(broken_.load());
  }

 private:
  void RunRound() {
    for (const auto& copy : copies_) {
      for (auto& taken : copy->taken) taken.store(false, std::memory_order_relaxed);
      copy->done.store(0, std::memory_order_relaxed);
      ASSERT_TRUE(board_.Post(&copy->execution));
    }
    for (const auto& copy : copies_) {
      if (random_() % 4 == 0) {
        for (int i = random_() % 20; i > 0; --i) std::this_thread::yield();
        copy->done.fetch_add(board_.TakeRest(copy->execution));
      }
      // Units that got left behind show as a round that never ends.
      const uint32_t units = copy->execution.units();
      while (copy->done.load(std::memory_order_acquire) < units) std::this_thread::yield();
    }
    // All units are completed, so all bits are settled.
    EXPECT_FALSE(board_.AnyWork());
    for (const auto& copy : copies_) board_.Retire(&copy->execution);
  }

  void Work(int index) {
    std::minstd_rand random(static_cast<unsigned>(index + 1));
    WorkBoard::Cursor cursor{.slot = 0, .from_the_end = index % 2 != 0};
    while (!stop_.load()) {
      const std::optional<WorkBoard::Unit> unit = board_.Take(kAnySlot, cursor);
      if (unit) {
        RunUnit(*unit, random);
      } else {
        std::this_thread::yield();
      }
    }
  }

  void RunUnit(const WorkBoard::Unit& unit, std::minstd_rand& random) {
    auto& copy = *static_cast<BoundedCopy*>(unit.execution->cookie);
    const int bound = copy.execution.most_threads();
    const int running = copy.running.fetch_add(1) + 1;
    if (bound > 0 && running > bound) broken_.store(true);
    if (copy.taken[unit.index].exchange(true)) broken_.store(true);
    if (random() % 3 == 0) std::this_thread::yield();
    for (int i = random() % 200; i > 0; --i) copy.running.load();
    copy.running.fetch_sub(1);
    board_.GivePermitBack(unit);
    copy.done.fetch_add(1, std::memory_order_acq_rel);
  }

  WorkBoard board_;
  std::vector<std::unique_ptr<BoundedCopy>> copies_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> broken_{false};
  std::minstd_rand random_{7};
};

constexpr int kStressRounds = kSanitized ? 300 : 2000;

TEST(Permits, LeaveNoUnitBehindAndNoBitSet) {
  BoardUnderStress({2}).Run(3, kStressRounds);
}

TEST(Permits, OfOneThreadAmongMany) {
  BoardUnderStress({1}).Run(4, kStressRounds);
}

TEST(Permits, OfSeveralExecutionsBesideThoseWithout) {
  BoardUnderStress({1, 0, 2, 3, 0}).Run(4, kStressRounds / 3);
}

TEST(JobBounds, AdmitWhatFitsInTheOrderOfArrival) {
  JobBounds bounds;
  // Of two units each, and of many.
  BoundedCopy small(512, 1, 3, kTwoShares);
  BoundedCopy large(8192, 1, 3, kTwoShares);
  BoundedCopy later(512, 1, 3, kTwoShares);
  BoundedCopy last(512, 1, 4, kTwoShares);
  ASSERT_EQ(small.execution.most_threads(), 2);
  ASSERT_EQ(large.execution.most_threads(), 3);
  EXPECT_TRUE(bounds.Admit(&small.execution));
  EXPECT_FALSE(bounds.Admit(&large.execution));
  EXPECT_FALSE(bounds.Admit(&later.execution));
  EXPECT_FALSE(bounds.Admit(&last.execution)) << "it would fit, but others were first";
  bounds.Leave(&small.execution);
  EXPECT_EQ(bounds.TakeNext(small.execution), &large.execution);
  EXPECT_EQ(bounds.TakeNext(small.execution), nullptr);
  bounds.Leave(&large.execution);
  EXPECT_EQ(bounds.TakeNext(large.execution), &later.execution);
  EXPECT_EQ(bounds.TakeNext(large.execution), &last.execution) << "by its own bound";
}

TEST(JobBounds, LetOthersGoWhenOneThatIsHeldLeaves) {
  JobBounds bounds;
  BoundedCopy first(512, 1, 4, kTwoShares);
  BoundedCopy held(8192, 1, 4, kTwoShares);
  BoundedCopy next(512, 1, 4, kTwoShares);
  EXPECT_TRUE(bounds.Admit(&first.execution));
  EXPECT_FALSE(bounds.Admit(&held.execution));
  EXPECT_FALSE(bounds.Admit(&next.execution));
  bounds.Leave(&held.execution);
  EXPECT_EQ(bounds.TakeNext(held.execution), &next.execution);
}

TEST(JobBounds, TellJobsApart) {
  JobBounds bounds;
  BoundedCopy copy(8192, 1, 3);
  BoundedCopy stranger(8192, 2, 3);
  BoundedCopy namesake(8192, 1, 3, kFourWorkers, 7);
  EXPECT_TRUE(bounds.Admit(&copy.execution));
  EXPECT_TRUE(bounds.Admit(&stranger.execution));
  EXPECT_TRUE(bounds.Admit(&namesake.execution));
  // Their places are for others when they have gone.
  for (BoundedCopy* one : {&copy, &stranger, &namesake}) {
    bounds.Leave(&one->execution);
    EXPECT_EQ(bounds.TakeNext(one->execution), nullptr);
  }
  for (uint64_t job = 10; job < 200; ++job) {
    BoundedCopy other(8192, job, 3);
    BoundedCopy second(8192, job, 3);
    EXPECT_TRUE(bounds.Admit(&other.execution));
    EXPECT_FALSE(bounds.Admit(&second.execution));
    bounds.Leave(&second.execution);
    bounds.Leave(&other.execution);
  }
}

class Bounds : public ::testing::Test {
 protected:
  static constexpr uint64_t kCount = kSanitized ? 150'000 : 500'000;

  /// An all-reduce of a job whose bound is `most_workers`.
  std::unique_ptr<CollectiveRun> Reduction(uint64_t job, int most_workers,
                                           uint64_t count = kCount) {
    auto run = std::make_unique<CollectiveRun>(
        CollectiveCase{.collective = Collective::kAllReduce, .ranks = 2, .count = count});
    run->terms.job = job;
    run->terms.most_workers = most_workers;
    run->Fill(0);
    return run;
  }
};

/// Runs some all-reduces of one job together, and returns how many threads have worked for them at
/// a time, on average over the time from the first's start to the last's end. More than the bound
/// would have to have worked at some time for this to exceed it.
double MeanThreads(TestExecutor& executor, const std::vector<std::unique_ptr<CollectiveRun>>& runs,
                   bool helps) {
  std::vector<Execution> executions(runs.size());
  for (size_t i = 0; i < runs.size(); ++i) {
    EXPECT_TRUE(runs[i]->Bind(executions[i], executor->machine(), helps).ok());
  }
  const uint64_t begin = MonotonicNanoseconds();
  for (Execution& execution : executions) executor->Start(&execution);
  uint64_t worked_ns = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    const Execution* const ended = helps ? executor.HelpUntilFinished() : executor.Wait();
    EXPECT_TRUE(ended->status().ok());
    worked_ns += ended->worked_nanoseconds();
  }
  const uint64_t end = MonotonicNanoseconds();
  for (const auto& run : runs) EXPECT_EQ(run->Check(), "");
  return static_cast<double>(worked_ns) / static_cast<double>(end - begin);
}

TEST_F(Bounds, HoldWithinAnExecution) {
  TestExecutor executor(4);
  for (const int bound : {1, 2, 3}) {
    for (const bool helps : {false, true}) {
      std::vector<std::unique_ptr<CollectiveRun>> runs;
      runs.push_back(Reduction(1, bound, 2 * kCount));
      EXPECT_LE(MeanThreads(executor, runs, helps), bound) << helps;
    }
  }
}

TEST_F(Bounds, HoldAcrossTheExecutionsOfAJob) {
  TestExecutor executor(4);
  for (const int bound : {1, 2, 3}) {
    for (const bool helps : {false, true}) {
      std::vector<std::unique_ptr<CollectiveRun>> runs;
      for (uint64_t i = 0; i < 30; ++i) {
        runs.push_back(Reduction(1, bound, i % 3 == 0 ? kCount / 4 : 1000));
      }
      EXPECT_LE(MeanThreads(executor, runs, helps), bound) << helps;
    }
  }
}

// Without the bound they would work at once, whatever the machine has: a thread that waits for a
// processor counts as one that works.
TEST_F(Bounds, AreWhatLimitsTheThreads) {
  TestExecutor executor(4);
  double most = 0;
  for (int attempt = 0; attempt < 20 && most <= 1; ++attempt) {
    std::vector<std::unique_ptr<CollectiveRun>> runs;
    for (uint64_t i = 0; i < 8; ++i) runs.push_back(Reduction(1, 0));
    most = std::max(most, MeanThreads(executor, runs, false));
  }
  EXPECT_GT(most, 1);
}

TEST_F(Bounds, OfOneJobDoNotHoldAnotherBack) {
  TestExecutor executor(2);
  // The owner, who does not help, lets the first wait for ever.
  auto first = Reduction(1, 1, 1000);
  auto second = Reduction(1, 1, 1000);
  auto other = Reduction(2, 1, 1000);
  std::array<Execution, 3> executions;
  ASSERT_TRUE(first->Bind(executions[0], executor->machine(), true).ok());
  ASSERT_TRUE(second->Bind(executions[1], executor->machine()).ok());
  ASSERT_TRUE(other->Bind(executions[2], executor->machine()).ok());
  executor->Start(&executions[0]);
  executor->Start(&executions[1]);
  executor->Start(&executions[2]);
  // Workers that had not gone to sleep yet may have done the first.
  std::vector<Execution*> ended;
  while (ended.empty() || ended.back() != &executions[2]) ended.push_back(executor.Wait());
  while (ended.size() < 3) ended.push_back(executor.HelpUntilFinished());
  for (const Execution& execution : executions) EXPECT_TRUE(execution.status().ok());
  EXPECT_EQ(second->Check(), "");
}

TEST_F(Bounds, ThatChangeHoldForWhatIsBoundWithThem) {
  TestExecutor executor(4);
  std::vector<std::unique_ptr<CollectiveRun>> runs;
  std::vector<Execution> executions(24);
  for (size_t i = 0; i < executions.size(); ++i) {
    runs.push_back(Reduction(1, static_cast<int>(i % 6), kCount / 4));
    ASSERT_TRUE(runs[i]->Bind(executions[i], executor->machine(), i % 4 == 0).ok());
  }
  for (Execution& execution : executions) executor->Start(&execution);
  for (size_t i = 0; i < executions.size(); ++i) {
    EXPECT_TRUE(executor.HelpUntilFinished()->status().ok());
  }
  for (const auto& run : runs) EXPECT_EQ(run->Check(), "");
  EXPECT_FALSE(executor->executing());
}

TEST_F(Bounds, HeldExecutionsCanBeCanceledInAnyOrder) {
  TestExecutor executor(2);
  std::minstd_rand random(5);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::unique_ptr<CollectiveRun>> runs;
    std::vector<Execution> executions(12);
    for (size_t i = 0; i < executions.size(); ++i) {
      runs.push_back(Reduction(i % 2, 1, 20'000));
      ASSERT_TRUE(runs[i]->Bind(executions[i], executor->machine()).ok());
      executor->Start(&executions[i]);
    }
    for (int i = 0; i < 6; ++i) {
      executor->Cancel(&executions[random() % executions.size()], RemoteError("canceled"));
      if (random() % 2 == 0) std::this_thread::yield();
    }
    std::set<const Execution*> ended;
    for (size_t i = 0; i < executions.size(); ++i)
      EXPECT_TRUE(ended.insert(executor.Wait()).second);
    EXPECT_FALSE(executor->executing());
    for (size_t i = 0; i < executions.size(); ++i) {
      if (executions[i].status().ok()) {
        EXPECT_EQ(runs[i]->Check(), "");
      }
    }
  }
}

// The bounded ones of 300 wait for each other, those of other jobs for a slot of the board.
TEST_F(Bounds, HoldWhereTheBoardIsFull) {
  TestExecutor executor(2);
  std::vector<std::unique_ptr<CollectiveRun>> runs;
  std::vector<Execution> executions(300);
  for (size_t i = 0; i < executions.size(); ++i) {
    runs.push_back(Reduction(i % 100, i % 3 == 0 ? 0 : 1, 1000));
    ASSERT_TRUE(runs[i]->Bind(executions[i], executor->machine(), i % 5 == 0).ok());
  }
  for (Execution& execution : executions) executor->Start(&execution);
  for (size_t i = 0; i < 50; ++i) executor->Cancel(&executions[6 * i], RemoteError("canceled"));
  for (size_t i = 0; i < executions.size(); ++i) executor.HelpUntilFinished();
  EXPECT_FALSE(executor->executing());
  for (size_t i = 0; i < executions.size(); ++i) {
    if (executions[i].status().ok()) {
      EXPECT_EQ(runs[i]->Check(), "");
    }
  }
}

TEST_F(Bounds, WakeNoMoreWorkersThanMayWork) {
  constexpr uint64_t kTimes = 20;
  TestExecutor executor(8);
  auto run = Reduction(1, 2, 4 * kCount);
  Execution execution;
  for (uint64_t i = 0; i < kTimes; ++i) {
    ASSERT_TRUE(run->Bind(execution, executor->machine()).ok());
    executor->Start(&execution);
    ASSERT_EQ(executor.Wait(), &execution);
  }
  EXPECT_EQ(run->Check(), "");
  // On a busy machine one may find no permit for so long that it goes to sleep meanwhile.
  EXPECT_LE(executor->Counters().worker_wakes, 3 * kTimes);
}

TEST_F(Bounds, OfOneLeaveTheWorkToAnOwnerThatHelps) {
  TestExecutor executor(2);
  auto run = Reduction(1, 1);
  Execution execution;
  uint64_t units = 0;
  for (int i = 0; i < 10; ++i) {
    run->Fill(i);
    ASSERT_TRUE(run->Bind(execution, executor->machine(), true).ok());
    units += execution.units();
    executor->Start(&execution);
    ASSERT_EQ(executor.HelpUntilFinished(), &execution);
    ASSERT_EQ(run->Check(), "");
  }
  const ExecutorCounters counters = executor->Counters();
  EXPECT_EQ(counters.worker_wakes, 0u);
  EXPECT_LE(counters.owner.units, units);
}

TEST_F(Bounds, WorkersOfThoseWhoSaveEnergySleepAtOnce) {
  // Without that it would search for an hour.
  TestExecutor executor(
      Executor::Options{.workers = 1, .spin_nanoseconds = int64_t{3600} * 1'000'000'000});
  auto run = Reduction(1, 0);
  run->terms.sleeps_at_once = true;
  Execution execution;
  ASSERT_TRUE(run->Bind(execution, executor->machine()).ok());
  for (int i = 0; i < 10'000 && executor->Counters().worker_wakes < 3; ++i) {
    executor->Start(&execution);
    ASSERT_EQ(executor.Wait(), &execution);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(executor->Counters().worker_wakes, 3u) << "who searches is not woken";
  EXPECT_EQ(run->Check(), "");
}

}  // namespace
}  // namespace harmonaize

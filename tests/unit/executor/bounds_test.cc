// How many threads work for a job at a time, where its operations have a bound.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "src/executor/host/job_bounds.h"
#include "src/executor/host/tenant_turns.h"
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
    Bind(kibibytes << 10, job, most_workers, machine, tenant);
    execution.cookie = this;
  }
  void Bind(uint64_t bytes, uint64_t job, int most_workers, const Machine& machine,
            uint32_t tenant) {
    const Schedule& schedule = Program();
    const MemoryView buffer{&memory};
    const std::array<MemoryView, 2> buffers = {buffer, buffer};
    Binding binding;
    binding.program = &schedule.programs[0];
    binding.type = DataType::kUint8;
    binding.count = bytes;
    binding.inputs = buffers;
    binding.outputs = buffers;
    binding.tenant = tenant;
    binding.job = job;
    binding.most_workers = most_workers;
    EXPECT_TRUE(execution.Bind(binding, machine).ok());
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

// A tenant whose permit is taken has nothing to do as far as it may be served, however much it has
// posted.
TEST(Permits, ThatAreTakenSaveUpLittleTime) {
  constexpr double kUnitNs = TenantTurns::kCreditNs / 10;
  BoundedCopy bounded(0, 1, 0);
  BoundedCopy greedy(0, 1, 0);
  TestExecutor executor(1);
  // They get places of their tenants by running something, together.
  bounded.Bind(1, 1, 0, executor->machine(), 1001);
  greedy.Bind(1, 1, 0, executor->machine(), 1002);
  executor->Start(&bounded.execution);
  executor->Start(&greedy.execution);
  for (int i = 0; i < 2; ++i) executor.Wait();
  bounded.Bind(64 << 20, 1, 1, kFourWorkers, 1001);
  greedy.Bind(64 << 20, 1, 0, kFourWorkers, 1002);

  WorkBoard board;
  WorkBoard::Cursor cursor;
  ASSERT_TRUE(board.Post(&bounded.execution));
  const auto held = board.Take(kAnySlot, cursor);
  ASSERT_TRUE(board.Post(&greedy.execution));
  for (int i = 0; i < 100; ++i) board.Charge(board.Take(kAnySlot, cursor)->place, kUnitNs);
  board.GivePermitBack(*held);
  int of_bounded = 0;
  for (int i = 0; i < 30; ++i) {
    const auto unit = board.Take(kAnySlot, cursor);
    ASSERT_TRUE(unit);
    board.Charge(unit->place, kUnitNs);
    board.GivePermitBack(*unit);
    of_bounded += unit->execution == &bounded.execution ? 1 : 0;
  }
  // It makes up for ten units, and then they take turns.
  EXPECT_NEAR(of_bounded, 20, 2);
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
        if (random_() % 2 == 0) std::this_thread::yield();
        copy->done.fetch_add(board_.TakeRest(copy->execution));
      }
      // Units that got left behind show as a round that never ends.
      const uint32_t units = copy->execution.units();
      for (uint32_t done = copy->done.load(); done < units; done = copy->done.load()) {
        copy->done.wait(done);
      }
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
    if (random() % 32 == 0) std::this_thread::yield();
    for (int i = random() % 200; i > 0; --i) copy.running.load();
    copy.running.fetch_sub(1);
    board_.GivePermitBack(unit);
    copy.done.fetch_add(1);
    copy.done.notify_one();
  }

  WorkBoard board_;
  std::vector<std::unique_ptr<BoundedCopy>> copies_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> broken_{false};
  std::minstd_rand random_{7};
};

constexpr int kStressRounds = kSanitized ? 100 : 600;

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

constexpr uint64_t kCount = kSanitized ? 150'000 : 500'000;

/// Returns an all-reduce of a job whose bound is `most_workers`.
std::unique_ptr<CollectiveRun> Reduction(uint64_t job, int most_workers, uint64_t count = kCount) {
  auto run = std::make_unique<CollectiveRun>(
      CollectiveCase{.collective = Collective::kAllReduce, .ranks = 2, .count = count});
  run->terms.job = job;
  run->terms.most_workers = most_workers;
  run->Fill(0);
  return run;
}

/// Memory of one job that takes long to read, so that units which run at the same time are seen to.
/// A thread's first access to a part of it faults, and the fault is handled after a while.
class SlowMemory {
 public:
  explicit SlowMemory(size_t parts) : bytes_(parts * kPartBytes) {
    void* const memory =
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(memory, MAP_FAILED);
    memory_ = static_cast<std::byte*>(memory);
    for (size_t i = 0; i < bytes_; ++i) memory_[i] = static_cast<std::byte>(i * 7 + i / 4096);
    for (size_t part = 0; part < parts; ++part) Protect(memory_ + part * kPartBytes, PROT_NONE);
    for (std::atomic<SlowMemory*>& place : all_) {
      SlowMemory* none = nullptr;
      if (place.compare_exchange_strong(none, this)) break;
    }
    HandleFaults();
  }
  ~SlowMemory() {
    for (std::atomic<SlowMemory*>& place : all_) {
      SlowMemory* self = this;
      place.compare_exchange_strong(self, nullptr);
    }
    munmap(memory_, bytes_);
  }
  SlowMemory(const SlowMemory&) = delete;
  SlowMemory& operator=(const SlowMemory&) = delete;

  static constexpr size_t kPartBytes = size_t{64} << 10;
  std::byte* data() const { return memory_; }
  /// Returns the most threads that have waited for it at a time.
  int most_threads() const { return most_.load(); }

 private:
  static constexpr size_t kPageBytes = 4096;

  static void Protect(std::byte* part, int protection) { mprotect(part, kPageBytes, protection); }
  static void HandleFaults() {
    static const bool kOnce = [] {
      struct sigaction action = {};
      action.sa_sigaction = &OnFault;
      action.sa_flags = SA_SIGINFO;
      return sigaction(SIGSEGV, &action, &before_) == 0;
    }();
    EXPECT_TRUE(kOnce);
  }
  static void OnFault(int /*signal*/, siginfo_t* info, void* /*context*/) {
    auto* const address = static_cast<std::byte*>(info->si_addr);
    for (const std::atomic<SlowMemory*>& place : all_) {
      SlowMemory* const memory = place.load();
      if (memory != nullptr && address >= memory->memory_ &&
          address < memory->memory_ + memory->bytes_) {
        return memory->Wait(address);
      }
    }
    // It is none of ours, and comes again.
    sigaction(SIGSEGV, &before_, nullptr);
  }
  void Wait(std::byte* address) {
    const int threads = threads_.fetch_add(1) + 1;
    int most = most_.load();
    while (most < threads && !most_.compare_exchange_weak(most, threads)) {
    }
    const timespec while_others_come = {.tv_sec = 0, .tv_nsec = 500'000};
    nanosleep(&while_others_come, nullptr);
    threads_.fetch_sub(1);
    const auto offset = static_cast<size_t>(address - memory_);
    Protect(memory_ + offset / kPageBytes * kPageBytes, PROT_READ | PROT_WRITE);
  }

  static inline struct sigaction before_ = {};
  static inline std::array<std::atomic<SlowMemory*>, 4> all_{};
  const size_t bytes_;
  std::byte* memory_ = nullptr;
  std::atomic<int> threads_{0};
  std::atomic<int> most_{0};
};

/// Copies of one job from slow memory: each of `parts` parts of it, and in all as much as there is.
class SlowCopies {
 public:
  SlowCopies(const std::vector<size_t>& parts, uint64_t job, int bound, bool helps,
             const Machine& machine)
      : memory_(std::accumulate(parts.begin(), parts.end(), size_t{0})), copies_(parts.size()) {
    size_t offset = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      Copy& copy = copies_[i];
      copy.from = memory_.data() + offset;
      offset += parts[i] * SlowMemory::kPartBytes;
      copy.to.resize(parts[i] * SlowMemory::kPartBytes);
      Bind(copy, job, bound, helps, machine);
    }
  }

  void Start(TestExecutor& executor) {
    for (Copy& copy : copies_) executor->Start(&copy.execution);
  }
  size_t count() const { return copies_.size(); }
  int most_threads() const { return memory_.most_threads(); }
  bool AreRight() const {
    return std::all_of(copies_.begin(), copies_.end(), [](const Copy& copy) {
      return copy.execution.status().ok() && std::equal(copy.to.begin(), copy.to.end(), copy.from);
    });
  }

 private:
  struct Copy {
    std::byte* from = nullptr;
    std::vector<std::byte> to;
    Execution execution;
  };

  static void Bind(Copy& copy, uint64_t job, int bound, bool helps, const Machine& machine) {
    const std::array<MemoryView, 2> inputs = {MemoryView{copy.from}, MemoryView{}};
    const std::array<MemoryView, 2> outputs = {MemoryView{copy.to.data()},
                                               MemoryView{copy.to.data()}};
    Binding binding;
    binding.program = &BoundedCopy::Program().programs[0];
    binding.type = DataType::kUint8;
    binding.count = copy.to.size();
    binding.inputs = inputs;
    binding.outputs = outputs;
    binding.job = job;
    binding.most_workers = bound;
    binding.helpable = helps;
    EXPECT_TRUE(copy.execution.Bind(binding, machine).ok());
  }

  SlowMemory memory_;
  std::vector<Copy> copies_;
};

/// Returns the most threads that work at a time for a job of four workers and an owner who may
/// help, beside another job, which has no bound and keeps all workers awake.
int MostThreads(const std::vector<size_t>& parts, int bound, bool helps) {
  TestExecutor executor(4);
  SlowCopies other({64}, 1, 0, false, executor->machine());
  SlowCopies bounded(parts, 2, bound, helps, executor->machine());
  other.Start(executor);
  bounded.Start(executor);
  for (size_t left = other.count() + bounded.count(); left > 0; --left) {
    executor.HelpUntilFinished();
  }
  EXPECT_TRUE(other.AreRight());
  EXPECT_TRUE(bounded.AreRight());
  return bounded.most_threads();
}

const std::vector<size_t> kOneLarge = {96};
const std::vector<size_t> kManySmall(40, 1);
const std::vector<size_t> kSomeOfEach = {1, 32, 2, 2, 1, 16, 1, 1, 8, 4, 1};

TEST(Bounds, HoldWithinAndAcrossExecutions) {
  for (const auto& parts : {kOneLarge, kManySmall, kSomeOfEach}) {
    for (const int bound : {1, 2, 3, 4}) {
      for (const bool helps : {false, true}) {
        EXPECT_LE(MostThreads(parts, bound, helps), bound) << parts.size() << ' ' << helps;
      }
    }
  }
}

// No job has fewer threads than it may have. In one run of many: on a busy machine some may come
// late.
TEST(Bounds, AreReached) {
  for (const auto& parts : {kOneLarge, kManySmall, kSomeOfEach}) {
    for (const int bound : {2, 4}) {
      int most = 0;
      for (int run = 0; run < 20 && most < bound; ++run) {
        most = MostThreads(parts, bound, false);
      }
      EXPECT_EQ(most, bound) << parts.size();
    }
  }
}

TEST(Bounds, OfOneJobDoNotHoldAnotherBack) {
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

TEST(Bounds, ThatChangeHoldForWhatIsBoundWithThem) {
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

TEST(Bounds, HeldExecutionsCanBeCanceledInAnyOrder) {
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
TEST(Bounds, HoldWhereTheBoardIsFull) {
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

TEST(Bounds, WakeNoMoreWorkersThanMayWork) {
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

TEST(Bounds, OfOneLeaveTheWorkToAnOwnerThatHelps) {
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

TEST(Bounds, WorkersOfThoseWhoSaveEnergySleepAtOnce) {
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
  EXPECT_GE(executor->Counters().worker_wakes, 3u) << "who searches is not woken";
  EXPECT_EQ(run->Check(), "");
}

}  // namespace
}  // namespace harmonaize

#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/sanitized.h"
#include "tests/unit/executor/testing.h"

namespace harmonaize {
namespace {

constexpr Collective kCollectives[] = {Collective::kAllReduce, Collective::kAllGather,
                                       Collective::kReduceScatter, Collective::kAllToAll,
                                       Collective::kBroadcast};

/// Elements of a block: putting them in and looking at them is what takes long.
constexpr uint64_t kLargestRandom = kSanitized ? 5'000 : 20'000;
constexpr uint64_t kManyUnits = kSanitized ? 150'000 : 500'000;

CollectiveCase RandomCase(std::mt19937& random, uint64_t largest_count) {
  CollectiveCase test_case;
  test_case.collective = kCollectives[random() % std::size(kCollectives)];
  test_case.ranks = static_cast<int>(1 + random() % 4);
  test_case.count = random() % largest_count;
  test_case.in_place = random() % 2 == 0;
  return test_case;
}

// What a communicator of the daemon has: one execution, bound again and again.
struct Stream {
  std::unique_ptr<CollectiveRun> run;
  Execution execution;
  bool canceled = false;
  int rounds = 0;
};

class ManyStreams {
 public:
  /// `bounded`: the streams are of some jobs of some tenants, most of which have bounds that change
  /// from one operation to the next.
  ManyStreams(TestExecutor& executor, int streams, int rounds, bool cancels, bool bounded = false)
      : executor_(executor), rounds_(rounds), cancels_(cancels), bounded_(bounded) {
    for (int i = 0; i < streams; ++i) {
      streams_.push_back(std::make_unique<Stream>());
      streams_.back()->execution.cookie = streams_.back().get();
      streams_.back()->run = std::make_unique<CollectiveRun>(RandomCase(random_, kLargestRandom));
    }
  }

  void Run() {
    for (auto& stream : streams_) Begin(*stream);
    auto running = streams_.size();
    while (running > 0) {
      if (cancels_ && random_() % 8 == 0) CancelOne();
      if (random_() % 4 == 0) executor_->Help();
      Execution* execution = random_() % 2 == 0 ? executor_->TakeFinished() : nullptr;
      if (execution == nullptr) execution = TakeOrWait();
      if (execution == nullptr) continue;
      auto& stream = *static_cast<Stream*>(execution->cookie);
      ASSERT_NO_FATAL_FAILURE(CheckResult(stream));
      if (++stream.rounds < rounds_) {
        Begin(stream);
      } else {
        --running;
      }
    }
  }

  int canceled() const { return canceled_; }

 private:
  void Begin(Stream& stream) {
    stream.canceled = false;
    stream.run->Fill(stream.rounds);
    if (bounded_) {
      stream.run->terms.tenant = random_() % 2;
      stream.run->terms.job = random_() % 3;
      stream.run->terms.most_workers = static_cast<int>(random_() % 4);
      stream.run->terms.sleeps_at_once = random_() % 4 == 0;
    }
    const bool helpable = random_() % 2 == 0;
    const int node = static_cast<int>(random_() % 4) - 1;  // none, and more than there are workers
    const Status bound = stream.run->Bind(stream.execution, executor_->machine(), helpable, node);
    ASSERT_TRUE(bound.ok()) << bound.ToString();
    executor_->Start(&stream.execution);
  }

  // The promise that goes with helpable executions.
  Execution* TakeOrWait() {
    while (executor_->Help()) {
    }
    return executor_.Wait();
  }

  void CancelOne() {
    Stream& stream = *streams_[random_() % streams_.size()];
    if (stream.rounds >= rounds_) return;
    executor_->Cancel(&stream.execution, RemoteError("canceled by the test"));
    stream.canceled = true;
  }

  void CheckResult(const Stream& stream) {
    if (stream.canceled) {
      ASSERT_EQ(stream.execution.status().message(), "canceled by the test");
      ++canceled_;
    } else {
      ASSERT_TRUE(stream.execution.status().ok()) << stream.execution.status().ToString();
      ASSERT_EQ(stream.run->Check(), "");
    }
  }

  TestExecutor& executor_;
  const int rounds_;
  const bool cancels_;
  const bool bounded_;
  int canceled_ = 0;
  std::mt19937 random_{42};
  std::vector<std::unique_ptr<Stream>> streams_;
};

TEST(ExecutorConcurrency, ManyStreamsDoNotDisturbEachOther) {
  TestExecutor executor(3, size_t{1} << 20, size_t{64} << 10);
  ManyStreams streams(executor, 20, 30, false);
  streams.Run();
  const ExecutorCounters counters = executor->Counters();
  EXPECT_EQ(counters.operations, 600u);
  EXPECT_EQ(counters.failed_operations, 0u);
  EXPECT_EQ(counters.workers.size(), 3u);
  EXPECT_GT(counters.bytes, 0u);
}

TEST(ExecutorConcurrency, WorkersNearSomeMemoryServeAllOfIt) {
  // As on two nodes; the processors are this machine's, whatever it has.
  TestExecutor executor({.workers = 3, .places = {{.node = 0}, {.node = 1}}});
  ManyStreams streams(executor, 20, 30, true);
  streams.Run();
  EXPECT_EQ(executor->Counters().operations, 600u);
}

TEST(ExecutorConcurrency, AWorkerTakesWhatIsFarWhenNothingIsNear) {
  TestExecutor executor({.workers = 1, .places = {{.node = 0}}});
  CollectiveRun run({.collective = Collective::kAllReduce, .ranks = 2, .count = kManyUnits});
  for (const int node : {0, 1, -1, kMaxNodes, 1 << 20}) {
    run.Fill(node);
    Execution execution;
    ASSERT_TRUE(run.Bind(execution, executor->machine(), false, node).ok());
    executor->Start(&execution);
    ASSERT_EQ(executor.Wait(), &execution);
    EXPECT_TRUE(execution.status().ok());
  }
}

TEST(ExecutorConcurrency, RandomCancelsHitOnlyTheirExecution) {
  TestExecutor executor(3);
  ManyStreams streams(executor, 12, 60, true);
  streams.Run();
  EXPECT_GT(streams.canceled(), 0);
  EXPECT_EQ(executor->Counters().failed_operations, static_cast<uint64_t>(streams.canceled()));
}

TEST(ExecutorConcurrency, MoreThanTheBoardHoldsWaitTheirTurn) {
  TestExecutor executor(2);
  ManyStreams streams(executor, 150, 3, true);
  streams.Run();
  EXPECT_EQ(executor->Counters().operations, 450u);
}

TEST(ExecutorConcurrency, BoundedStreamsGetOnBesideOthers) {
  TestExecutor executor(3);
  ManyStreams streams(executor, 20, 30, true, true);
  streams.Run();
  EXPECT_EQ(executor->Counters().operations, 600u);
  EXPECT_FALSE(executor->executing());
}

TEST(ExecutorConcurrency, MoreBoundedStreamsThanTheBoardHolds) {
  TestExecutor executor(4);
  ManyStreams streams(executor, 150, 3, true, true);
  streams.Run();
  EXPECT_EQ(executor->Counters().operations, 450u);
}

// Executions of few units, finished and rebound at once, while workers still look at the slot of
// the last one: what ThreadSanitizer should see most of.
TEST(ExecutorConcurrency, RebindingWhileWorkersStillLook) {
  TestExecutor executor(4);
  CollectiveRun small({.collective = Collective::kAllReduce, .ranks = 2, .count = 5});
  CollectiveRun large({.collective = Collective::kBroadcast, .ranks = 3, .count = 200'000});
  small.Fill(1);
  large.Fill(1);
  // Freed and made anew at times: no worker may still touch the old one.
  auto execution = std::make_unique<Execution>();
  for (int round = 0; round < (kSanitized ? 600 : 3000); ++round) {
    if (round % 10 == 0) execution = std::make_unique<Execution>();
    CollectiveRun& run = round % 20 == 7 ? large : small;
    ASSERT_TRUE(run.Bind(*execution, executor->machine()).ok());
    executor->Start(execution.get());
    ASSERT_EQ(executor.Wait(), execution.get());
    ASSERT_TRUE(execution->status().ok());
  }
  EXPECT_EQ(small.Check(), "");
  EXPECT_EQ(large.Check(), "");
}

TEST(ExecutorConcurrency, CancelOfWhatIsOverOrNotStartedIsHarmless) {
  TestExecutor executor(1);
  CollectiveRun run({.collective = Collective::kAllReduce, .ranks = 2, .count = 100});
  run.Fill(0);
  Execution execution;
  executor->Cancel(&execution, RemoteError("too early"));
  ASSERT_TRUE(run.Bind(execution, executor->machine()).ok());
  executor->Start(&execution);
  ASSERT_EQ(executor.Wait(), &execution);
  executor->Cancel(&execution, RemoteError("too late"));
  EXPECT_TRUE(execution.status().ok());
  EXPECT_EQ(executor->TakeFinished(), nullptr);
}

/// Until no thread of an executor is on a processor, or wants one; false after 10 s. A busy machine
/// may take its time to let one come to its sleep.
bool WaitUntilWorkersSleep() {
  const auto awake = [](const std::filesystem::directory_entry& task) {
    std::string name;
    std::ifstream(task.path() / "comm") >> name;
    if (!name.starts_with("hz-worker")) return false;
    std::string number, of_name, state;
    std::ifstream(task.path() / "stat") >> number >> of_name >> state;
    return state != "S";
  };
  for (int i = 0; i < 1000; ++i) {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    if (std::none_of(begin(tasks), end(tasks), awake)) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

TEST(ExecutorConcurrency, HelpRunsAlonePromisedWork) {
  TestExecutor executor(1);
  CollectiveRun run({.collective = Collective::kAllReduce, .ranks = 4, .count = 100});
  run.Fill(0);
  Execution execution;
  EXPECT_FALSE(executor->Help());
  ASSERT_TRUE(WaitUntilWorkersSleep());
  ASSERT_TRUE(run.Bind(execution, executor->machine(), true).ok());
  ASSERT_EQ(execution.units(), 1u);
  executor->Start(&execution);
  // The worker sleeps and is not woken for it.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(executor->TakeFinished(), nullptr);
  EXPECT_TRUE(executor->Help());
  EXPECT_FALSE(executor->Help());
  EXPECT_EQ(executor->TakeFinished(), &execution);
  EXPECT_EQ(run.Check(), "");
  EXPECT_EQ(executor->Counters().owner.units, 1u);
}

TEST(ExecutorConcurrency, RunsAtOnceWhatTheOwnerMayDoAlone) {
  TestExecutor executor(1);
  CollectiveRun tiny({.collective = Collective::kAllReduce, .ranks = 4, .count = 100});
  tiny.Fill(0);
  Execution execution;
  ASSERT_TRUE(tiny.Bind(execution, executor->machine(), true).ok());
  EXPECT_TRUE(executor->RunAtOnce(&execution));
  EXPECT_TRUE(execution.status().ok());
  EXPECT_EQ(tiny.Check(), "");
  EXPECT_EQ(executor->TakeFinished(), nullptr);
  EXPECT_EQ(executor->Counters().operations, 1u);

  // What others have to do is left as it was.
  tiny.Fill(1);
  ASSERT_TRUE(tiny.Bind(execution, executor->machine(), /*helpable=*/false).ok());
  EXPECT_FALSE(executor->RunAtOnce(&execution));
  CollectiveRun large({.collective = Collective::kAllReduce, .ranks = 4, .count = 1'000'000});
  large.Fill(0);
  Execution units;
  ASSERT_TRUE(large.Bind(units, executor->machine(), true).ok());
  ASSERT_GT(units.units(), 1u);
  EXPECT_FALSE(executor->RunAtOnce(&units));
  executor->Start(&execution);
  EXPECT_EQ(executor.Wait(), &execution);
  EXPECT_EQ(tiny.Check(), "");
}

// However large the work: one worker beside an owner that helps, where there are two processors.
TEST(ExecutorConcurrency, WakesNoMoreWorkersThanThereAreProcessors) {
  constexpr uint64_t kTimes = kSanitized ? 10 : 200;
  Executor::Options options;
  options.workers = 8;
  options.processors = 2;
  TestExecutor executor(std::move(options));
  CollectiveRun run({.collective = Collective::kAllReduce, .ranks = 2, .count = kManyUnits});
  Execution execution;
  for (uint64_t i = 0; i < kTimes; ++i) {
    run.Fill(static_cast<int>(i));
    ASSERT_TRUE(run.Bind(execution, executor->machine(), true).ok());
    EXPECT_GT(execution.units(), 1u);
    executor->Start(&execution);
    ASSERT_EQ(executor.HelpUntilFinished(), &execution);
    ASSERT_EQ(run.Check(), "");
  }
  EXPECT_LE(executor->Counters().worker_wakes, kTimes);
}

TEST(ExecutorConcurrency, NobodyIsWokenWhileOneLooksForWork) {
  Executor::Options options;
  options.workers = 1;
  options.spin_nanoseconds = 10'000'000'000;
  TestExecutor executor(std::move(options));
  CollectiveRun run({.collective = Collective::kAllReduce, .ranks = 2, .count = kManyUnits});
  Execution execution;
  for (int i = 0; i < (kSanitized ? 20 : 100); ++i) {
    run.Fill(i);
    ASSERT_TRUE(run.Bind(execution, executor->machine()).ok());
    executor->Start(&execution);
    ASSERT_EQ(executor.Wait(), &execution);
  }
  // The first may have come before the worker began to look.
  EXPECT_LE(executor->Counters().worker_wakes, 1u);
}

double ProcessorSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

TEST(ExecutorConcurrency, IdleWorkersUseNoProcessorTime) {
  TestExecutor executor(8);
  CollectiveRun run({.collective = Collective::kAllReduce, .ranks = 2, .count = kManyUnits});
  run.Fill(0);
  Execution execution;
  ASSERT_TRUE(run.Bind(execution, executor->machine()).ok());
  executor->Start(&execution);
  ASSERT_EQ(executor.Wait(), &execution);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const double before = ProcessorSeconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(ProcessorSeconds() - before, 0.01);
}

TEST(ExecutorConcurrency, EstimatesGrowWithTheWork) {
  TestExecutor executor(2);
  const double small = executor->EstimateSeconds(4096, 4096);
  const double large = executor->EstimateSeconds(64 << 20, 64 << 20);
  EXPECT_GT(small, 1e-6);
  EXPECT_LT(small, 1e-3);
  EXPECT_GT(large, 1e-4);
  EXPECT_LT(large, 10.0);
}

TEST(Executor, RefusesBadOptions) {
  EXPECT_EQ(Executor::Create({.workers = 0}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Executor::Create({.workers = 65}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Executor::Create({.places = {{.processors = {100'000}}}}).status().code(),
            Code::kInvalidArgument);
  EXPECT_FALSE(
      Executor::Create({.workers = 2, .places = {{.processors = {0}}, {.processors = {1000}}}})
          .ok());
  EXPECT_TRUE(Executor::Create({.workers = 2, .places = {{.processors = {0}}}}).ok());
}

}  // namespace
}  // namespace harmonaize

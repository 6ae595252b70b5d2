// Whose work the executor's threads do, while several tenants have some.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "src/executor/host/tenant_turns.h"
#include "src/schedule/algorithms/one_host.h"
#include "tests/unit/executor/testing.h"

namespace harmonaize {
namespace {

TEST(TenantPlaces, AreOnesOwnAsLongAsThereAreEnough) {
  TenantPlaces places;
  const int alice = places.Join(1001);
  EXPECT_EQ(places.Join(1001), alice);
  const int bob = places.Join(1002);
  EXPECT_NE(bob, alice);
  places.Leave(alice);
  EXPECT_EQ(places.Join(1001), alice) << "she still has one";
  places.Leave(bob);
  EXPECT_EQ(places.Join(1002), bob) << "what was done for him still counts";
  places.Leave(bob);
  for (uint32_t tenant = 2000; tenant < 2100; ++tenant) {
    const int place = places.Join(tenant);
    EXPECT_GE(place, 0);
    EXPECT_LT(place, TenantPlaces::kPlaces);
  }
}

TEST(TenantPlaces, AreSharedWhileSeveralHaveExecutions) {
  TenantPlaces places;
  const auto run_alone = [&places](uint32_t tenant, int times) {
    for (int i = 0; i < times; ++i) places.Leave(places.Join(tenant));
  };
  run_alone(1001, 100);
  EXPECT_FALSE(places.shared());
  // One that takes long, beside many short ones.
  const int bob = places.Join(1002);
  run_alone(1001, 1000);
  EXPECT_TRUE(places.shared());
  places.Leave(bob);
  // The ranks of the short ones may be just about to post the next.
  run_alone(1001, 1);
  run_alone(1002, 10);
  EXPECT_TRUE(places.shared());
  run_alone(1002, 100);
  EXPECT_FALSE(places.shared());
}

TEST(TenantTurns, GoByTheTimeThatWasSpent) {
  TenantTurns turns;
  std::array<double, 3> spent{};
  // One has long pieces of work, and one a weight of two.
  constexpr std::array<double, 3> kPiece = {10, 1, 1};
  constexpr std::array<double, 3> kWeight = {1, 1, 2};
  for (int i = 0; i < 10'000; ++i) {
    const int place = turns.Next(0b111);
    const auto p = static_cast<size_t>(place);
    spent[p] += kPiece[p];
    turns.Charge(place, kPiece[p] / kWeight[p]);
  }
  EXPECT_NEAR(spent[1] / spent[0], 1, 0.02);
  EXPECT_NEAR(spent[2] / spent[0], 2, 0.02);
}

TEST(TenantTurns, WhoHadNothingToDoMakesUpForLittleOfIt) {
  constexpr double kPiece = TenantTurns::kCreditNs / 10;
  TenantTurns turns;
  turns.Begin(0);
  for (int i = 0; i < 100; ++i) turns.Charge(turns.Next(0b01), kPiece);
  turns.Begin(1);
  const auto turns_of_second = [&turns](int count) {
    int second = 0;
    for (int i = 0; i < count; ++i) {
      const int place = turns.Next(0b11);
      turns.Charge(place, kPiece);
      second += place;
    }
    return second;
  };
  EXPECT_EQ(turns_of_second(9), 9);
  turns_of_second(4);
  EXPECT_EQ(turns_of_second(10), 5);
}

TEST(TenantTurns, KnowWhoWouldBeFirst) {
  TenantTurns turns;
  turns.Charge(0, 2);
  turns.Charge(1, 1);
  EXPECT_TRUE(turns.IsFirst(1, 0b001));
  EXPECT_FALSE(turns.IsFirst(0, 0b010));
  EXPECT_TRUE(turns.IsFirst(1, 0b011)) << "not before itself, of course";
  EXPECT_FALSE(turns.IsFirst(1, 0b101)) << "somebody else has had nothing yet";
}

/// A broadcast on this host, of so many bytes of memory that nobody else uses.
class Copy {
 public:
  Copy(size_t bytes, uint32_t tenant, float weight, const Machine& machine, bool helpable = false,
       const Operands& terms = {})
      : memory_(2 * bytes), schedule_(OneHost(Collective::kBroadcast, 2, 0, false)) {
    const MemoryView from{.address = memory_.data()};
    const MemoryView to{.address = memory_.data() + bytes};
    const std::array<MemoryView, 2> inputs = {from, MemoryView{}};
    const std::array<MemoryView, 2> outputs = {from, to};
    Binding binding;
    static_cast<Operands&>(binding) = terms;
    binding.program = &schedule_.programs[0];
    binding.type = DataType::kUint8;
    binding.count = bytes;
    binding.inputs = inputs;
    binding.outputs = outputs;
    binding.tenant = tenant;
    binding.weight = weight;
    binding.helpable = helpable;
    binding.whole = true;
    EXPECT_TRUE(execution.Bind(binding, machine).ok());
  }

  Execution execution;

 private:
  std::vector<std::byte> memory_;
  Schedule schedule_;
};

/// While a greedy tenant has work, and has had a unit done, the owner does an operation of a modest
/// one: whether its ranks are awaited then, and until they have posted another.
bool RanksAreAwaited(const Operands& terms = {}) {
  // For long enough that nothing else ends it.
  TestExecutor executor(Executor::Options{
      .workers = 1, .processors = kMaxWorkers, .wake_up_nanoseconds = 1'000'000'000});
  Copy greedy(size_t{32} << 20, 1001, 1, executor->machine(), true);
  Copy modest(64, 1002, 1, executor->machine(), true, terms);
  executor->Start(&greedy.execution);
  executor->Help();
  executor->Start(&modest.execution);
  EXPECT_FALSE(executor->AwaitRanks());
  executor->Help();
  Execution* const first = executor->TakeFinished();
  const bool awaited = first == &modest.execution && !executor->Help() && executor->AwaitRanks();
  int running = first == nullptr ? 2 : 1;
  if (first == &modest.execution) {
    executor->Start(&modest.execution);
    ++running;
    EXPECT_FALSE(executor->AwaitRanks());
  }
  while (running-- > 0) executor.HelpUntilFinished();
  return awaited;
}

class Tenants : public ::testing::Test {
 protected:
  static constexpr uint32_t kGreedy = 1001;
  static constexpr uint32_t kModest = 1002;

  /// The greedy one starts `greedy` copies, then the modest one starts one. How many of the greedy
  /// one's have ended before it.
  int EndBeforeTheModestOne(int greedy, size_t bytes, float greedy_weight) {
    std::vector<std::unique_ptr<Copy>> copies;
    for (int i = 0; i < greedy; ++i) {
      copies.push_back(std::make_unique<Copy>(bytes, kGreedy, greedy_weight, executor_->machine(),
                                              false, greedy_terms_));
    }
    Copy modest(bytes, kModest, 1, executor_->machine(), false, modest_terms_);
    for (const auto& copy : copies) executor_->Start(&copy->execution);
    executor_->Start(&modest.execution);
    int before = -1;
    for (int ended = 0; ended <= greedy; ++ended) {
      if (executor_.Wait() == &modest.execution) before = ended;
    }
    return before;
  }

  /// The same, in the best of some runs: where others want the processors, the time that a thread
  /// stood still counts as spent.
  int FewestBeforeTheModestOne(int greedy, size_t bytes, int enough) {
    int fewest = greedy;
    for (int run = 0; run < 10 && fewest > enough; ++run) {
      fewest = std::min(fewest, EndBeforeTheModestOne(greedy, bytes, 1));
    }
    return fewest;
  }

  /// The greedy one works alone for a while, then the modest one starts a copy: how much is moved
  /// until that one has ended, of both, by what it needs itself.
  double MovedUntilTheModestOneEnds() {
    constexpr size_t kBytes = size_t{3} << 20;
    Copy greedy(10 * kBytes, kGreedy, 1, executor_->machine());
    Copy modest(kBytes, kModest, 1, executor_->machine());
    const uint64_t begun = executor_->Counters().bytes;
    executor_->Start(&greedy.execution);
    while (executor_->Counters().bytes < begun + 6 * kBytes) std::this_thread::yield();
    const uint64_t before = executor_->Counters().bytes;
    executor_->Start(&modest.execution);
    uint64_t after = UINT64_MAX;
    for (int ended = 0; ended < 2; ++ended) {
      if (executor_.Wait() == &modest.execution) after = executor_->Counters().bytes;
    }
    return static_cast<double>(after - before) / (2 * kBytes);
  }

  TestExecutor executor_{1};
  Operands greedy_terms_;
  Operands modest_terms_;
};

TEST_F(Tenants, HaveTheSameOfTheThreadsWhateverTheNumberOfTheirOperations) {
  // When the modest one's ends each of the others is an eighth done.
  EXPECT_LE(FewestBeforeTheModestOne(8, size_t{16} << 20, 1), 1);
}

TEST_F(Tenants, WhoseJobsAreBoundedGetOnAsWell) {
  modest_terms_.most_workers = 1;
  EXPECT_LE(FewestBeforeTheModestOne(8, size_t{16} << 20, 1), 1);
}

TEST_F(Tenants, WhoseJobsAreBoundedKeepNobodyWaiting) {
  greedy_terms_.most_workers = 1;
  EXPECT_LE(FewestBeforeTheModestOne(8, size_t{16} << 20, 1), 1);
}

TEST_F(Tenants, MakeUpForWhatAnotherHasDoneAlone) {
  // If they shared from then on, it would be about twice as much. In the best of some runs: where
  // others want the processors, the time that a thread stood still counts as spent.
  double least = 2;
  for (int run = 0; run < 10 && least > 1.3; ++run) {
    least = std::min(least, MovedUntilTheModestOneEnds());
  }
  EXPECT_LE(least, 1.3);
}

TEST(AwaitedRanks, WhereItIsTheirTurn) {
  // In one run of many: on a busy machine the greedy one may be done before.
  bool awaited = false;
  for (int run = 0; run < 30 && !awaited; ++run) awaited = RanksAreAwaited();
  EXPECT_TRUE(awaited);
}

TEST(AwaitedRanks, NotThoseWhoSaveEnergy) {
  Operands terms;
  terms.sleeps_at_once = true;
  for (int run = 0; run < 5; ++run) EXPECT_FALSE(RanksAreAwaited(terms));
}

TEST_F(Tenants, HaveMoreOfThemByAWeight) {
  EXPECT_EQ(EndBeforeTheModestOne(8, size_t{4} << 20, 64), 8);
}

TEST_F(Tenants, DoNotWaitBehindAllThatAnotherHasStarted) {
  // Of 300 the board holds 64.
  EXPECT_LE(FewestBeforeTheModestOne(300, size_t{64} << 10, 100), 100);
}

TEST_F(Tenants, DoNotWaitBehindTheBoundedOnesThatAnotherHasStarted) {
  greedy_terms_.most_workers = 1;
  EXPECT_LE(FewestBeforeTheModestOne(300, size_t{64} << 10, 100), 100);
}

// Wherever they stand in the line: its ends, and neighbours.
TEST_F(Tenants, ExecutionsThatWaitCanBeCancelledInAnyOrder) {
  constexpr size_t kCopies = 300;
  std::vector<std::unique_ptr<Copy>> copies;
  for (size_t i = 0; i < kCopies; ++i) {
    copies.push_back(std::make_unique<Copy>(4096, kGreedy, 1, executor_->machine()));
  }
  for (const auto& copy : copies) executor_->Start(&copy->execution);
  std::vector<size_t> order(kCopies);
  std::iota(order.begin(), order.end(), size_t{0});
  std::shuffle(order.begin(), order.end(), std::mt19937(7));
  order.resize(kCopies / 2);
  order.push_back(kCopies - 1);
  for (const size_t i : order) executor_->Cancel(&copies[i]->execution, RemoteError("cancelled"));
  std::set<const Execution*> ended;
  for (size_t i = 0; i < kCopies; ++i) EXPECT_TRUE(ended.insert(executor_.Wait()).second);
  size_t failed = 0;
  for (const auto& copy : copies) failed += copy->execution.status().ok() ? 0 : 1;
  EXPECT_GT(failed, 0u);
  EXPECT_LE(failed, order.size());
}

}  // namespace
}  // namespace harmonaize

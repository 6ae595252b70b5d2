#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "src/executor/foreign_call.h"
#include "src/schedule/one_host.h"
#include "tests/unit/executor_testing.h"

namespace harmonaize {
namespace {

constexpr size_t kBytes = size_t{1} << 20;
constexpr uint64_t kPatience = 30'000'000;

TEST(ForeignCall, ExactlyOneSideHasTheUnit) {
  ForeignCall call;
  Execution execution;
  call.SetExecution(&execution);
  EXPECT_FALSE(call.AbandonIfStuck(0, 1000));
  call.Enter({.rank = 3, .space = Space::kOutput}, 1000);
  EXPECT_FALSE(call.AbandonIfStuck(11, 1010));
  EXPECT_TRUE(call.Leave());
  EXPECT_FALSE(call.AbandonIfStuck(0, 2000));
  call.Enter({.rank = 3, .space = Space::kOutput}, 2000);
  const auto lost = call.AbandonIfStuck(10, 2010);
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->execution, &execution);
  EXPECT_EQ(lost->buffer.rank, 3);
  EXPECT_EQ(lost->buffer.space, Space::kOutput);
  EXPECT_EQ(lost->nanoseconds, 10u);
  EXPECT_FALSE(call.AbandonIfStuck(0, 9000));
  EXPECT_FALSE(call.Leave());
}

// A send from rank 0 to rank 1, one of them a process whose pages never arrive.
class StuckWorkers : public testing::Test {
 protected:
  void SetUp() override {
    if (!hostile_.valid()) GTEST_SKIP() << "the kernel gives no userfaultfd to this user";
  }

  void Bind(Execution& execution, const Buffer& from, const Buffer& to, uint64_t count) {
    const std::array<Buffer, 2> inputs = {from, Buffer{}};
    const std::array<Buffer, 2> outputs = {Buffer{}, to};
    Binding binding;
    binding.program = &send_.programs[0];
    binding.type = DataType::kUint8;
    binding.count = count;
    binding.inputs = inputs;
    binding.outputs = outputs;
    ASSERT_TRUE(execution.Bind(binding, (*executor_)->machine()).ok());
  }
  void Start(Execution& execution, const Buffer& from, const Buffer& to, uint64_t count) {
    Bind(execution, from, to, count);
    (*executor_)->Start(&execution);
  }

  Execution* ReplaceUntilFinished() {
    for (;;) {
      replaced_ += (*executor_)->ReplaceStuckWorkers(kPatience);
      if (Execution* execution = (*executor_)->TakeFinished()) return execution;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  Buffer Mapped(std::vector<std::byte>& memory) {
    return {.mapped = memory.data(), .process = 0, .address = 0};
  }

  const Schedule send_ = OneHost(Collective::kSend, 2, 0, false);
  ForeignProcess hostile_{kBytes, ForeignProcess::Pages::kNeverArrive};
  ForeignProcess friendly_{kBytes};
  std::unique_ptr<TestExecutor> executor_ = std::make_unique<TestExecutor>(2);
  std::vector<std::byte> memory_ = std::vector<std::byte>(kBytes);
  int replaced_ = 0;
};

TEST_F(StuckWorkers, AreReplacedAndTheRankIsNamed) {
  Execution execution;
  Start(execution, hostile_.At(0), Mapped(memory_), kBytes);
  ASSERT_EQ(ReplaceUntilFinished(), &execution);
  EXPECT_GE(replaced_, 1);
  EXPECT_EQ(execution.status().code(), Code::kRemoteError);
  EXPECT_NE(execution.status().message().find("send buffer of rank 0"), std::string::npos)
      << execution.status().ToString();
  EXPECT_EQ(execution.faulty_buffer().rank, 0);
  EXPECT_EQ(execution.faulty_buffer().space, Space::kInput);

  Start(execution, Mapped(memory_), hostile_.At(0), 1000);
  ASSERT_EQ(ReplaceUntilFinished(), &execution);
  EXPECT_NE(execution.status().message().find("receive buffer of rank 1"), std::string::npos)
      << execution.status().ToString();

  // All workers are there again, and work.
  for (int i = 0; i < 20; ++i) {
    Start(execution, friendly_.At(0), Mapped(memory_), kBytes);
    ASSERT_EQ(executor_->Wait(), &execution);
    ASSERT_TRUE(execution.status().ok()) << execution.status().ToString();
  }
  EXPECT_EQ((*executor_)->Counters().abandoned_workers, static_cast<uint64_t>(replaced_));
  EXPECT_EQ((*executor_)->ReplaceStuckWorkers(kPatience), 0);
}

TEST_F(StuckWorkers, ComeBackWithoutTouchingAnything) {
  auto execution = std::make_unique<Execution>();
  Start(*execution, hostile_.At(0), Mapped(memory_), kBytes);
  ASSERT_EQ(ReplaceUntilFinished(), execution.get());
  // What they were working on is gone before they return.
  execution.reset();
  memory_ = std::vector<std::byte>(kBytes);
  hostile_.End();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(memory_, std::vector<std::byte>(kBytes));
  executor_->Destroy();
}

TEST_F(StuckWorkers, DoNotHoldUpCancelOfOthersNorTheEnd) {
  Execution stuck;
  Start(stuck, hostile_.At(0), Mapped(memory_), 1000);
  Execution other;
  std::vector<std::byte> more(kBytes);
  Start(other, friendly_.At(0), Mapped(more), 1000);
  ASSERT_EQ(executor_->Wait(), &other);
  EXPECT_TRUE(other.status().ok());
  // Canceled, it still ends only once its worker has been given up.
  (*executor_)->Cancel(&stuck, RemoteError("canceled"));
  EXPECT_EQ((*executor_)->TakeFinished(), nullptr);
  ASSERT_EQ(ReplaceUntilFinished(), &stuck);
  EXPECT_EQ(stuck.status().message(), "canceled");

  // An executor with a stuck worker ends nevertheless.
  Start(stuck, hostile_.At(0), Mapped(memory_), 1000);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const uint64_t before = MonotonicNanoseconds();
  executor_->Destroy();
  EXPECT_LT(MonotonicNanoseconds() - before, 2'000'000'000u);
  hostile_.End();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

TEST_F(StuckWorkers, DoNotHoldUpWhatCameWhileTheyLookedForWork) {
  Executor::Options options;
  options.workers = 2;
  options.spin_nanoseconds = 20'000'000;
  executor_ = std::make_unique<TestExecutor>(std::move(options));
  Execution stuck;
  Execution other;
  std::vector<std::byte> more(kBytes);
  for (int i = 0; i < 10; ++i) {
    // Both workers sleep; then one is woken, and looks for work once it is done.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    Start(other, Mapped(memory_), Mapped(more), 1000);
    ASSERT_EQ(executor_->Wait(), &other);
    // If it finds the one of these that it cannot finish, the other worker has to come for the
    // other. What is found, and when, is chance; hence the rounds, and both orders.
    Bind(stuck, hostile_.At(0), Mapped(memory_), 1000);
    Bind(other, Mapped(memory_), Mapped(more), 1000);
    (*executor_)->Start(i % 2 == 0 ? &other : &stuck);
    (*executor_)->Start(i % 2 == 0 ? &stuck : &other);
    const uint64_t deadline = MonotonicNanoseconds() + 2'000'000'000;
    Execution* finished = nullptr;
    while (finished == nullptr && MonotonicNanoseconds() < deadline) {
      finished = (*executor_)->TakeFinished();
    }
    ASSERT_EQ(finished, &other) << "round " << i;
    ASSERT_EQ(ReplaceUntilFinished(), &stuck);
  }
}

}  // namespace
}  // namespace harmonaize

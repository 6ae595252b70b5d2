#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "src/schedule/ir/schedule.h"
#include "tests/unit/executor/testing.h"

namespace harmonaize {
namespace {

// Programs that no one-host generator makes, over two or more ranks of uint32, mapped.
class Programs : public testing::TestWithParam<uint64_t> {
 protected:
  static constexpr size_t kRanks = 4;

  void SetUp() override {
    for (size_t r = 0; r < kRanks; ++r) {
      inputs_[r].resize(count() + 1);
      outputs_[r].assign(count() + 1, 0xdeadbeef);
      for (uint64_t i = 0; i < count(); ++i) inputs_[r][i] = Value(r, i);
    }
  }

  uint64_t count() const { return GetParam(); }
  static uint32_t Value(size_t rank, uint64_t i) {
    return static_cast<uint32_t>(i * 31 + rank * 1'000'003);
  }
  static uint32_t Sum(uint64_t i) {
    uint32_t sum = 0;
    for (size_t r = 0; r < kRanks; ++r) sum += Value(r, i);
    return sum;
  }

  void Run(const HostProgram& program, int pieces = 1) {
    std::array<MemoryView, kRanks> inputs;
    std::array<MemoryView, kRanks> outputs;
    for (size_t r = 0; r < kRanks; ++r) {
      inputs[r].address = reinterpret_cast<std::byte*>(inputs_[r].data());
      outputs[r].address = reinterpret_cast<std::byte*>(outputs_[r].data());
    }
    Binding binding;
    binding.program = &program;
    binding.pieces = pieces;
    binding.type = DataType::kUint32;
    binding.count = count();
    binding.inputs = inputs;
    binding.outputs = outputs;
    binding.helpable = true;
    Execution execution;
    const Status bound = execution.Bind(binding, executor_->machine());
    ASSERT_TRUE(bound.ok()) << bound.ToString();
    executor_->Start(&execution);
    ASSERT_EQ(executor_.HelpUntilFinished(), &execution);
    ASSERT_TRUE(execution.status().ok()) << execution.status().ToString();
  }

  void ExpectSums() {
    for (size_t r = 0; r < kRanks; ++r) {
      for (uint64_t i = 0; i < count(); ++i) ASSERT_EQ(outputs_[r][i], Sum(i)) << r << " " << i;
      EXPECT_EQ(outputs_[r][count()], 0xdeadbeef);
    }
  }

  std::array<std::vector<uint32_t>, kRanks> inputs_;
  std::array<std::vector<uint32_t>, kRanks> outputs_;
  // A small cache makes for many slices.
  TestExecutor executor_{3, size_t{32} << 10};
};

std::vector<Block> Outputs(int index) {
  return {OutputBlock(0, index), OutputBlock(1, index), OutputBlock(2, index),
          OutputBlock(3, index)};
}

TEST_P(Programs, ReduceAsATreeThroughScratch) {
  HostProgram program;
  program.scratch_blocks = 2;
  program.steps = {
      Step{StepKind::kReduce, {InputBlock(0, 0), InputBlock(1, 0)}, {ScratchBlock(0)}, -1, {}},
      Step{StepKind::kReduce, {InputBlock(2, 0), InputBlock(3, 0)}, {ScratchBlock(1)}, -1, {}},
      Step{StepKind::kReduce, {ScratchBlock(0), ScratchBlock(1)}, Outputs(0), -1, {0, 1}}};
  Run(program);
  ExpectSums();
}

TEST_P(Programs, ReduceAsAChainThroughOutputs) {
  HostProgram program;
  program.steps = {
      Step{StepKind::kReduce, {InputBlock(0, 0), InputBlock(1, 0)}, {OutputBlock(1, 0)}, -1, {}},
      Step{StepKind::kReduce, {OutputBlock(1, 0), InputBlock(2, 0)}, {OutputBlock(2, 0)}, -1, {0}},
      Step{StepKind::kReduce, {OutputBlock(2, 0), InputBlock(3, 0)}, {OutputBlock(3, 0)}, -1, {1}},
      Step{StepKind::kCopy,
           {OutputBlock(3, 0)},
           {OutputBlock(0, 0), OutputBlock(1, 0), OutputBlock(2, 0)},
           -1,
           {2}}};
  Run(program);
  ExpectSums();
}

TEST_P(Programs, PiecesOfUnequalLength) {
  HostProgram program;
  for (int piece = 0; piece < 3; ++piece) {
    Step step{StepKind::kReduce, {}, Outputs(piece), -1, {}};
    for (int r = 0; r < 4; ++r) step.sources.push_back(InputBlock(r, piece));
    program.steps.push_back(step);
  }
  Run(program, 3);
  ExpectSums();
}

TEST_P(Programs, RotateThroughScratchPieceByPiece) {
  HostProgram program;
  program.scratch_blocks = 2;
  for (int piece = 0; piece < 2; ++piece) {
    const int first = piece * 2;
    program.steps.push_back(
        {StepKind::kCopy, {InputBlock(3, piece)}, {ScratchBlock(piece)}, -1, {}});
    program.steps.push_back(
        {StepKind::kCopy, {ScratchBlock(piece)}, {OutputBlock(0, piece)}, -1, {first}});
  }
  Run(program, 2);
  for (uint64_t i = 0; i < count(); ++i) ASSERT_EQ(outputs_[0][i], Value(3, i));
  EXPECT_EQ(outputs_[1][0], 0xdeadbeef);
}

TEST_P(Programs, ExchangeOfThreeInOneStep) {
  // Each output starts as the rank's input, and lies in the place of its own source.
  for (size_t r = 0; r < kRanks; ++r) outputs_[r] = inputs_[r];
  HostProgram program;
  program.steps = {
      Step{StepKind::kExchange,
           {OutputBlock(0, 0), OutputBlock(1, 0), OutputBlock(2, 0), OutputBlock(3, 0)},
           {OutputBlock(1, 0), OutputBlock(2, 0), OutputBlock(0, 0), OutputBlock(3, 0)},
           -1,
           {}}};
  Run(program);
  for (uint64_t i = 0; i < count(); ++i) {
    ASSERT_EQ(outputs_[1][i], Value(0, i));
    ASSERT_EQ(outputs_[2][i], Value(1, i));
    ASSERT_EQ(outputs_[0][i], Value(2, i));
    ASSERT_EQ(outputs_[3][i], Value(3, i));
  }
}

INSTANTIATE_TEST_SUITE_P(Counts, Programs, testing::Values(1, 2, 64, 1000, 300'001));

}  // namespace
}  // namespace harmonaize

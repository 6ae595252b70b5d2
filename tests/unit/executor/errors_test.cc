#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <string>
#include <vector>

#include "src/schedule/algorithms/one_host.h"
#include "tests/unit/executor/testing.h"

namespace harmonaize {
namespace {

constexpr Machine kMachine{.workers = 2, .cache_bytes = 1 << 20, .last_level_bytes = 32 << 20};

class BindErrors : public testing::Test {
 protected:
  void SetUp() override {
    for (size_t r = 0; r < 2; ++r) {
      inputs_[r] = {.address = memory_.data() + 256 * r};
      outputs_[r] = {.address = memory_.data() + 512 + 256 * r};
    }
    binding_.program = &schedule_.programs[0];
    binding_.count = 16;
    binding_.inputs = inputs_;
    binding_.outputs = outputs_;
  }

  void ExpectRefused(Code code, const std::string& words) {
    const Status status = execution_.Bind(binding_, kMachine);
    EXPECT_EQ(status.code(), code) << status.ToString();
    EXPECT_NE(status.message().find(words), std::string::npos) << status.ToString();
  }

  std::vector<std::byte> memory_ = std::vector<std::byte>(1024);
  std::array<MemoryView, 2> inputs_;
  std::array<MemoryView, 2> outputs_;
  Schedule schedule_ = OneHost(Collective::kAllReduce, 2, 0, false);
  HostProgram program_;
  Binding binding_;
  Execution execution_;
};

TEST_F(BindErrors, AcceptsWhatIsRight) {
  EXPECT_TRUE(execution_.Bind(binding_, kMachine).ok());
}

TEST_F(BindErrors, NamesTheRankWithoutABuffer) {
  outputs_[1] = {};
  ExpectRefused(Code::kInvalidArgument, "rank 1 has no receive buffer");
  outputs_[1] = outputs_[0];
  inputs_[0] = {};
  ExpectRefused(Code::kInvalidArgument, "rank 0 has no send buffer");
}

TEST_F(BindErrors, WorksOnHostMemoryAlone) {
  outputs_[1].kind = MemoryKind::kDevice;
  ExpectRefused(Code::kInvalidArgument, "the receive buffer of rank 1 is not in host memory");
}

TEST_F(BindErrors, WantsABufferOfEveryRank) {
  binding_.inputs = std::span(inputs_).first(1);
  ExpectRefused(Code::kInvalidArgument, "no such rank among 1");
}

TEST_F(BindErrors, RefusesWhatNeedsATransport) {
  for (StepKind kind : {StepKind::kSend, StepKind::kReceive, StepKind::kReceiveReduce}) {
    program_.steps = {Step{kind, {InputBlock(0, 0)}, {OutputBlock(0, 0)}, 3, {}}};
    binding_.program = &program_;
    ExpectRefused(Code::kInvalidUsage, "needs a transport to host 3");
  }
}

TEST_F(BindErrors, RefusesScratchThatIsNotThere) {
  program_.steps = {Step{StepKind::kCopy, {InputBlock(0, 0)}, {ScratchBlock(1)}, -1, {}}};
  program_.scratch_blocks = 1;
  binding_.program = &program_;
  ExpectRefused(Code::kInternalError, "scratch[1]");
}

TEST_F(BindErrors, RefusesStepsWithoutSources) {
  for (StepKind kind : {StepKind::kReduce, StepKind::kCopy, StepKind::kExchange}) {
    program_.steps = {Step{kind, {}, {}, -1, {}}};
    binding_.program = &program_;
    ExpectRefused(Code::kInternalError, StepKindName(kind));
  }
}

TEST_F(BindErrors, RefusesToDivideOrScalePartialResults) {
  program_.scratch_blocks = 1;
  program_.steps = {
      Step{StepKind::kReduce, {InputBlock(0, 0), InputBlock(1, 0)}, {ScratchBlock(0)}, -1, {}},
      Step{StepKind::kReduce, {ScratchBlock(0), InputBlock(1, 0)}, {OutputBlock(0, 0)}, -1, {0}}};
  binding_.program = &program_;
  EXPECT_TRUE(execution_.Bind(binding_, kMachine).ok());
  binding_.op = ReduceOperator::kAvg;
  ExpectRefused(Code::kInvalidUsage, "operator avg");
}

TEST_F(BindErrors, ChecksTheValues) {
  binding_.op = ReduceOperator::kAvg;
  binding_.divisor = 0;
  ExpectRefused(Code::kInvalidArgument, "divisor");
  binding_.op = ReduceOperator::kPreMulSum;
  ExpectRefused(Code::kInvalidArgument, "0 scalars for 2 ranks");
  binding_.op = ReduceOperator::kSum;
  binding_.type = static_cast<DataType>(99);
  ExpectRefused(Code::kInvalidArgument, "99 is no data type");
  binding_.type = DataType::kFloat64;
  binding_.op = static_cast<ReduceOperator>(kReduceOperatorCount);
  ExpectRefused(Code::kInvalidArgument, "6 is no operator");
  binding_.op = ReduceOperator::kSum;
  binding_.count = uint64_t{1} << 61;
  ExpectRefused(Code::kInvalidArgument, "too many");
  const Schedule gather = OneHost(Collective::kAllGather, 2, 0, false);
  binding_.program = &gather.programs[0];
  binding_.count = uint64_t{1} << 59;
  ExpectRefused(Code::kInvalidArgument, "too large");
}

}  // namespace
}  // namespace harmonaize

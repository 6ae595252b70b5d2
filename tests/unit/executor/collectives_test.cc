#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "src/schedule/algorithms/one_host.h"
#include "tests/support/sanitized.h"
#include "tests/unit/executor/testing.h"

namespace harmonaize {
namespace {

constexpr std::array kCollectives = {
    Collective::kAllReduce, Collective::kReduce,        Collective::kBroadcast,
    Collective::kAllGather, Collective::kReduceScatter, Collective::kAllToAll,
    Collective::kGather,    Collective::kScatter,       Collective::kSend};

void RunCase(TestExecutor& executor, const CollectiveCase& test_case, bool helpable) {
  CollectiveRun run(test_case);
  Execution execution;
  int marker = 0;
  execution.cookie = &marker;
  run.Fill(static_cast<int>(test_case.count % 7));
  const Status bound = run.Bind(execution, executor->machine(), helpable);
  ASSERT_TRUE(bound.ok()) << test_case.ToString() << ": " << bound.ToString();
  executor->Start(&execution);
  ASSERT_EQ(helpable ? executor.HelpUntilFinished() : executor.Wait(), &execution);
  EXPECT_EQ(execution.cookie, &marker);
  ASSERT_TRUE(execution.status().ok()) << execution.status().ToString();
  ASSERT_EQ(run.Check(), "");
}

std::vector<int> RankCounts(Collective collective) {
  return collective == Collective::kSend ? std::vector<int>{2} : std::vector<int>{1, 2, 3, 5, 8};
}

void RunAll(const std::vector<uint64_t>& counts, bool helpable, size_t last_level_bytes) {
  TestExecutor executor(2, size_t{64} << 10, last_level_bytes);
  for (Collective collective : kCollectives) {
    for (int ranks : RankCounts(collective)) {
      for (uint64_t count : counts) {
        for (bool in_place : {false, true}) {
          const CollectiveCase test_case{.collective = collective,
                                         .ranks = ranks,
                                         .root = ranks > 2 ? 1 : 0,
                                         .count = count,
                                         .in_place = in_place};
          ASSERT_NO_FATAL_FAILURE(RunCase(executor, test_case, helpable));
        }
      }
    }
  }
}

TEST(Collectives, GiveWhatTheirDefinitionSays) {
  RunAll({0, 1, 3, 17, 1000, 4099}, false, size_t{32} << 20);
}

TEST(Collectives, WithTheOwnersHelp) {
  RunAll({1, 1000, 4099}, true, size_t{32} << 20);
}

TEST(Collectives, OfManyUnitsPastTheCaches) {
  RunAll({kSanitized ? 10'007 : 40'007}, true, size_t{16} << 10);
}

TEST(Collectives, AverageAndScaledSumPassTheirParameters) {
  TestExecutor executor(2);
  const Schedule schedule = OneHost(Collective::kAllReduce, 3, 0, false);
  std::array<std::vector<float>, 3> inputs;
  std::array<std::vector<float>, 3> outputs;
  std::vector<MemoryView> input_buffers;
  std::vector<MemoryView> output_buffers;
  for (size_t r = 0; r < 3; ++r) {
    inputs[r].assign(1000, static_cast<float>(r + 1));
    outputs[r].assign(1000, -1.0F);
    input_buffers.push_back({reinterpret_cast<std::byte*>(inputs[r].data())});
    output_buffers.push_back({reinterpret_cast<std::byte*>(outputs[r].data())});
  }
  std::array<uint64_t, 3> scalars{};
  for (size_t r = 0; r < 3; ++r) {
    const float scalar = static_cast<float>(10 * r) + 0.5F;
    std::memcpy(&scalars[r], &scalar, sizeof scalar);
  }
  Binding binding;
  binding.program = &schedule.programs[0];
  binding.count = 1000;
  binding.inputs = input_buffers;
  binding.outputs = output_buffers;
  binding.scalars = scalars;
  binding.divisor = 3;
  Execution execution;
  const auto result = [&](ReduceOperator op) {
    binding.op = op;
    EXPECT_TRUE(execution.Bind(binding, executor->machine()).ok());
    executor->Start(&execution);
    EXPECT_EQ(executor.Wait(), &execution);
    EXPECT_TRUE(execution.status().ok());
    EXPECT_EQ(outputs[0], outputs[2]);
    return outputs[1][999];
  };
  EXPECT_EQ(result(ReduceOperator::kAvg), 2.0F);
  EXPECT_EQ(result(ReduceOperator::kPreMulSum), 0.5F * 1 + 10.5F * 2 + 20.5F * 3);
}

}  // namespace
}  // namespace harmonaize

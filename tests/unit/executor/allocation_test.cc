#include <gtest/gtest.h>

#include "tests/unit/executor/testing.h"
#include "tests/unit/replaced_new.h"

namespace harmonaize {
namespace {

TEST(ExecutorAllocation, NoneOnceTheShapesAreKnown) {
  // In place, an all-to-all exchanges, and so stages.
  CollectiveRun exchange({.collective = Collective::kAllToAll,
                          .ranks = 4,
                          .root = 0,
                          .count = 30'000,
                          .in_place = true});
  CollectiveRun reduction(
      {.collective = Collective::kAllReduce, .ranks = 4, .root = 0, .count = 30'000});
  // Two of a job with a bound: the second waits for the first.
  CollectiveRun bounded(
      {.collective = Collective::kAllReduce, .ranks = 2, .root = 0, .count = 300'000});
  bounded.terms.job = 1;
  bounded.terms.most_workers = 1;
  TestExecutor executor(2);
  Execution executions[4];
  const auto round = [&] {
    bool ok = exchange.Bind(executions[0], executor->machine()).ok() &&
              reduction.Bind(executions[1], executor->machine(), true).ok() &&
              bounded.Bind(executions[2], executor->machine()).ok() &&
              bounded.Bind(executions[3], executor->machine()).ok();
    for (Execution& execution : executions) executor->Start(&execution);
    while (executor->Help()) {
    }
    for (int i = 0; i < 4; ++i) ok = executor.Wait()->status().ok() && ok;
    return ok;
  };
  exchange.Fill(1);
  reduction.Fill(1);
  bounded.Fill(1);
  // Every thread has to have met every shape before; on a busy machine that may take a while.
  int allocated = 1;
  for (int attempt = 0; attempt < 20 && allocated > 0; ++attempt) {
    const int before = AllocationCount();
    bool ok = true;
    for (int i = 0; i < 100; ++i) ok = round() && ok;
    allocated = AllocationCount() - before;
    ASSERT_TRUE(ok);
  }
  EXPECT_EQ(allocated, 0);
}

}  // namespace
}  // namespace harmonaize

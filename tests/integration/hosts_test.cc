// Communicators that span hosts: several daemons that reach each other over the loopback device,
// ranks as processes.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/cluster.h"
#include "tests/support/nccl_case.h"
#include "tests/support/rank_runner.h"
#include "tests/support/reference.h"

namespace harmonaize::testing {
namespace {

/// One case with its data and its reference.
void RunCase(const Case& c, int rank, ncclComm_t communicator) {
  std::vector<Bytes> inputs;
  std::vector<uint64_t> scalars;
  for (int r = 0; r < c.ranks; ++r) {
    const BufferBlocks blocks = BlocksOf(c.collective, c.ranks, r, c.root);
    const size_t elements = c.count * (IsPointToPoint(c.collective) ? 1 : blocks.send);
    const auto seed = static_cast<uint64_t>(r) * 131 + c.count;
    inputs.push_back(MakeData(c.type, elements, seed));
    scalars.push_back(MakeScalar(c.type, seed));
  }
  const std::vector<Bytes> expected = Reference(c, inputs, scalars);
  const auto r = static_cast<size_t>(rank);
  for (const Memory memory : {Memory::kHeap, Memory::kRegistered}) {
    for (const bool in_place : {false, true}) {
      if (in_place && IsPointToPoint(c.collective)) continue;
      RunAndCheck(c, memory, in_place, rank, inputs[r], scalars[r], expected[r], communicator);
    }
  }
}

TEST(Hosts, EveryCollective) {
  TestCluster cluster(3);
  RunOnHosts(&cluster, {0, 1, 2, 0, 1}, [](int rank, ncclComm_t communicator) {
    for (int collective = 0; collective < kCollectiveCount - 1; ++collective) {
      for (const size_t count : {size_t{0}, size_t{1}, size_t{37}, size_t{9973}, size_t{300007}}) {
        RunCase({static_cast<Collective>(collective), DataType::kInt32, ReduceOperator::kSum, 5,
                 static_cast<int>(count % 5), count},
                rank, communicator);
      }
    }
  });
}

}  // namespace
}  // namespace harmonaize::testing

// Every collective x type x operator x {in place, out of place} x memory x ranks, over many counts,
// against the scalar reference, through a daemon.

#include <gtest/gtest.h>

#include <barrier>
#include <cstdlib>
#include <iterator>
#include <vector>

#include "tests/support/daemon_process.h"
#include "tests/support/nccl_case.h"
#include "tests/support/rank_runner.h"
#include "tests/support/reference.h"
#include "tests/support/sanitized.h"

namespace harmonaize::testing {
namespace {

class CollectivesTest : public ::testing::TestWithParam<int> {
 protected:
  static void SetUpTestSuite() { daemon_ = new DaemonProcess(); }
  static void TearDownTestSuite() { delete daemon_; }
  static DaemonProcess* daemon_;
};
DaemonProcess* CollectivesTest::daemon_ = nullptr;

struct PlannedCase {
  Case c;
  unsigned ways = kAllWays;
};

/// The data of a case and its reference are made once for all ranks.
void RunCases(int ranks, const std::vector<PlannedCase>& cases) {
  std::barrier together(ranks);
  PreparedCase prepared;
  RunAsThreads(ranks, [&](int rank, ncclComm_t communicator) {
    for (const PlannedCase& planned : cases) {
      if (rank == 0) prepared = Prepare(planned.c);
      together.arrive_and_wait();
      RunInWays(prepared, planned.ways, rank, communicator);
      together.arrive_and_wait();
    }
  });
}

std::vector<ReduceOperator> OperatorsOf(Collective collective) {
  if (!Reduces(collective)) return {ReduceOperator::kSum};
  return {ReduceOperator::kSum, ReduceOperator::kProd, ReduceOperator::kMax,
          ReduceOperator::kMin, ReduceOperator::kAvg,  ReduceOperator::kPreMulSum};
}

// 0, 1, odd, a prime above one vector, and one above the staging threshold in some types and below
// it in others, so that heap buffers go both ways.
constexpr size_t kCounts[] = {0, 1, 37, 1031, 9973};

// Each combination of collective, type and operator has every count over the numbers of ranks, and
// each combination of collective, count and ranks has many types and operators;
// numerics_reduce_test has all types with all operators at all lengths.
TEST_P(CollectivesTest, EveryTypeAndOperator) {
  const int ranks = GetParam();
  std::vector<PlannedCase> cases;
  auto number = static_cast<size_t>(ranks);
  for (int collective = 0; collective < kCollectiveCount - 1; ++collective) {
    for (int type = 0; type < kDataTypeCount; ++type) {
      for (const ReduceOperator op : OperatorsOf(static_cast<Collective>(collective))) {
        const size_t count = kCounts[++number % std::size(kCounts)];
        const unsigned half = number % 2 == 0 ? kHalfOfTheWays : kOtherHalfOfTheWays;
        cases.push_back({{static_cast<Collective>(collective), static_cast<DataType>(type), op,
                          ranks, static_cast<int>(number) % ranks, count},
                         kSanitized ? half : kAllWays});
      }
    }
  }
  RunCases(ranks, cases);
}

TEST_P(CollectivesTest, EveryRoot) {
  const int ranks = GetParam();
  std::vector<PlannedCase> cases;
  for (const Collective collective :
       {Collective::kReduce, Collective::kBroadcast, Collective::kGather, Collective::kScatter}) {
    for (int root = 0; root < ranks; ++root) {
      cases.push_back({{collective, DataType::kInt32, ReduceOperator::kSum, ranks, root, 301}});
    }
  }
  RunCases(ranks, cases);
}

TEST_P(CollectivesTest, LargeEnoughForAllWorkers) {
  const int ranks = GetParam();
  std::vector<PlannedCase> cases;
  for (int collective = 0; collective < kCollectiveCount - 1; ++collective) {
    cases.push_back(
        {{static_cast<Collective>(collective), DataType::kFloat32, ReduceOperator::kSum, ranks,
          ranks - 1, (size_t{1} << (kSanitized ? 18 : 20)) / static_cast<size_t>(ranks) + 3},
         !kSanitized           ? kAllWays
         : collective % 2 == 0 ? kHalfOfTheWays
                               : kOtherHalfOfTheWays});
  }
  RunCases(ranks, cases);
}

// More bytes than 32 bits count, in heap memory. HARMONAIZE_TEST_HUGE=1 runs it: 9 GiB, half a
// minute.
TEST(Huge, BroadcastOfMoreThanFourGibibytes) {
  if (std::getenv("HARMONAIZE_TEST_HUGE") == nullptr)
    GTEST_SKIP() << "HARMONAIZE_TEST_HUGE is not set";
  DaemonProcess daemon;
  RunAsThreads(2, [](int rank, ncclComm_t communicator) {
    constexpr size_t kCount = (size_t{4} << 30) + 12345;
    std::vector<uint8_t> data(kCount, rank == 0 ? 7 : 0);
    for (size_t i = 0; rank == 0 && i < kCount; i += 4099) data[i] = static_cast<uint8_t>(i / 4099);
    ASSERT_NCCL(
        ncclBroadcast(data.data(), data.data(), kCount, ncclUint8, 0, communicator, nullptr));
    size_t wrong = 0;
    for (size_t i = 0; i < kCount; ++i) {
      wrong += data[i] != (i % 4099 == 0 ? static_cast<uint8_t>(i / 4099) : 7);
    }
    EXPECT_EQ(wrong, 0u);
  });
}

std::vector<int> NumbersOfRanks() {
  if (kSanitized) return {1, 3};
  return {1, 2, 3, 4, 5, 8};
}
INSTANTIATE_TEST_SUITE_P(Ranks, CollectivesTest, ::testing::ValuesIn(NumbersOfRanks()));

}  // namespace
}  // namespace harmonaize::testing

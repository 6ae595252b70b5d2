// Every collective x type x operator x {in place, out of place} x memory x ranks x counts, against
// the scalar reference, through a daemon.

#include <gtest/gtest.h>

#include <barrier>
#include <cstdlib>
#include <vector>

#include "tests/support/daemon_process.h"
#include "tests/support/nccl_case.h"
#include "tests/support/rank_runner.h"
#include "tests/support/reference.h"

namespace harmonaize::testing {
namespace {

class CollectivesTest : public ::testing::TestWithParam<int> {
 protected:
  static void SetUpTestSuite() { daemon_ = new DaemonProcess(); }
  static void TearDownTestSuite() { delete daemon_; }
  static DaemonProcess* daemon_;
};
DaemonProcess* CollectivesTest::daemon_ = nullptr;

/// One case with its data and its reference, made once for all ranks.
struct Prepared {
  std::vector<Bytes> inputs;
  std::vector<uint64_t> scalars;
  std::vector<Bytes> expected;
};

Prepared Prepare(const Case& c) {
  Prepared prepared;
  for (int rank = 0; rank < c.ranks; ++rank) {
    const BufferBlocks blocks = BlocksOf(c.collective, c.ranks, rank, c.root);
    const size_t elements = c.count * (IsPointToPoint(c.collective) ? 1 : blocks.send);
    const auto seed = static_cast<uint64_t>(rank) * 131 + c.count;
    prepared.inputs.push_back(MakeData(c.type, elements, seed));
    prepared.scalars.push_back(MakeScalar(c.type, seed));
  }
  prepared.expected = Reference(c, prepared.inputs, prepared.scalars);
  return prepared;
}

/// Whether NCCL defines the operation in place for this rank.
bool HasInPlaceForm(const Case& c) {
  return !IsPointToPoint(c.collective);
}

void RunCases(int ranks, const std::vector<Case>& cases) {
  std::barrier together(ranks);
  Prepared prepared;
  RunAsThreads(ranks, [&](int rank, ncclComm_t communicator) {
    for (const Case& c : cases) {
      if (rank == 0) prepared = Prepare(c);
      together.arrive_and_wait();
      const auto r = static_cast<size_t>(rank);
      for (const Memory memory : {Memory::kHeap, Memory::kRegistered}) {
        for (const bool in_place : {false, true}) {
          if (in_place && !HasInPlaceForm(c)) continue;
          RunAndCheck(c, memory, in_place, rank, prepared.inputs[r], prepared.scalars[r],
                      prepared.expected[r], communicator);
        }
      }
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

TEST_P(CollectivesTest, EveryTypeAndOperator) {
  const int ranks = GetParam();
  std::vector<Case> cases;
  for (int collective = 0; collective < kCollectiveCount - 1; ++collective) {
    for (int type = 0; type < kDataTypeCount; ++type) {
      for (const ReduceOperator op : OperatorsOf(static_cast<Collective>(collective))) {
        for (const size_t count : kCounts) {
          const int root = static_cast<int>(count) % ranks;
          cases.push_back({static_cast<Collective>(collective), static_cast<DataType>(type), op,
                           ranks, root, count});
        }
      }
    }
  }
  RunCases(ranks, cases);
}

TEST_P(CollectivesTest, EveryRoot) {
  const int ranks = GetParam();
  std::vector<Case> cases;
  for (const Collective collective :
       {Collective::kReduce, Collective::kBroadcast, Collective::kGather, Collective::kScatter}) {
    for (int root = 0; root < ranks; ++root) {
      cases.push_back({collective, DataType::kInt32, ReduceOperator::kSum, ranks, root, 301});
    }
  }
  RunCases(ranks, cases);
}

TEST_P(CollectivesTest, LargeEnoughForAllWorkers) {
  const int ranks = GetParam();
  std::vector<Case> cases;
  for (int collective = 0; collective < kCollectiveCount - 1; ++collective) {
    cases.push_back({static_cast<Collective>(collective), DataType::kFloat32, ReduceOperator::kSum,
                     ranks, ranks - 1, (size_t{1} << 20) / static_cast<size_t>(ranks) + 3});
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

INSTANTIATE_TEST_SUITE_P(Ranks, CollectivesTest, ::testing::Values(1, 2, 3, 4, 5, 8));

}  // namespace
}  // namespace harmonaize::testing

// Sums that go between hosts in a format of fewer bytes: several daemons on the loopback device.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "src/numerics/wire_format.h"
#include "tests/support/hosts_case.h"
#include "tests/support/job_views.h"
#include "tests/support/rank_runner.h"

namespace harmonaize::testing {
namespace {

/// Most roundings that any plan of these tests has.
constexpr int kMostRoundings = 8;

std::string Compressing(const std::string& format, double error_bound, int switch_every_ms = 0) {
  return "[plans]\ncompression = \"" + format +
         "\"\ncompression_error_bound = " + std::to_string(error_bound) +
         "\nswitch_every_ms = " + std::to_string(switch_every_ms) + "\n";
}

template <typename T>
T ContributionOf(int rank, size_t i, int turn) {
  const auto mixed = static_cast<uint32_t>(i * 2654435761u + static_cast<uint32_t>(rank) * 40503u +
                                           static_cast<uint32_t>(turn) * 97u);
  return static_cast<T>(static_cast<int32_t>(mixed)) * static_cast<T>(0x1p-20);
}

/// Fails unless all ranks have the same bytes.
void ExpectAgreement(const void* data, size_t bytes, ncclComm_t world) {
  uint64_t hash = 14695981039346656037u;
  for (size_t i = 0; i < bytes; ++i) {
    hash = (hash ^ static_cast<const unsigned char*>(data)[i]) * 1099511628211u;
  }
  uint64_t least = 0;
  uint64_t most = 0;
  ASSERT_NCCL(ncclAllReduce(&hash, &least, 1, ncclUint64, ncclMin, world, nullptr));
  ASSERT_NCCL(ncclAllReduce(&hash, &most, 1, ncclUint64, ncclMax, world, nullptr));
  ASSERT_EQ(least, most) << "ranks have different results";
}

/// All-reduces of values that no format has. The error bound is that of all plans that there are.
template <typename T>
void SumUp(ncclDataType_t type, size_t count, WireFormat format, int turn, int rank, int ranks,
           ncclComm_t world) {
  std::vector<T> input(count);
  for (size_t i = 0; i < count; ++i) input[i] = ContributionOf<T>(rank, i, turn);
  const std::vector<T> before = input;
  std::vector<T> output(count);
  const ncclRedOp_t op = turn % 2 == 0 ? ncclSum : ncclAvg;
  ASSERT_NCCL(ncclAllReduce(input.data(), output.data(), count, type, op, world, nullptr));
  ASSERT_EQ(input, before) << "an input has changed";
  ASSERT_NO_FATAL_FAILURE(ExpectAgreement(output.data(), count * sizeof(T), world));
  const double divisor = op == ncclAvg ? ranks : 1;
  // Float32's own rounding comes on top.
  const double bound = WireErrorBound(format, kMostRoundings, ranks) + 0x1p-21;
  // Every contribution's magnitude is 2^11 at most.
  const double largest = 2048.0 * ranks;
  for (size_t i = 0; i < count; ++i) {
    double sum = 0;
    for (int other = 0; other < ranks; ++other) {
      sum += static_cast<double>(ContributionOf<T>(other, i, turn));
    }
    const double error = std::abs(static_cast<double>(output[i]) * divisor - sum);
    ASSERT_LE(error, bound * largest) << "element " << i << " of " << count;
  }
}

void SumUpEverything(WireFormat format, int turns, int rank, int ranks, ncclComm_t world) {
  for (int turn = 0; turn < turns; ++turn) {
    const size_t counts[] = {1, 37, 70001, 400003};
    const size_t count = counts[turn % 4];
    SumUp<float>(ncclFloat32, count, format, turn, rank, ranks, world);
    if (::testing::Test::HasFatalFailure()) return;
    SumUp<double>(ncclFloat64, count, WireFormat::kBf16, turn, rank, ranks, world);
    if (::testing::Test::HasFatalFailure()) return;
    // What is no sum of floats is exact.
    std::vector<int32_t> numbers(count, rank + turn);
    ASSERT_NCCL(
        ncclAllReduce(numbers.data(), numbers.data(), count, ncclInt32, ncclSum, world, nullptr));
    ASSERT_EQ(numbers[count - 1], ranks * (ranks - 1) / 2 + ranks * turn);
    std::vector<float> largest(count, 1.0f + 0x1p-20f * static_cast<float>(rank));
    ASSERT_NCCL(
        ncclAllReduce(largest.data(), largest.data(), count, ncclFloat32, ncclMax, world, nullptr));
    ASSERT_EQ(largest[count / 2], 1.0f + 0x1p-20f * static_cast<float>(ranks - 1));
  }
}

TEST(Compression, SumsAreAlikeEverywhereAndNearTheTruth) {
  for (const WireFormat format : {WireFormat::kBf16, WireFormat::kFp8}) {
    const std::string name(WireFormatName(format));
    SCOPED_TRACE(name);
    TestCluster cluster(4, Compressing(name, 1));
    RunOnHosts(&cluster, {0, 1, 2, 3, 2}, [&](int rank, ncclComm_t world) {
      SumUpEverything(format, 4, rank, 5, world);
      if (rank != 0 || ::testing::Test::HasFailure()) return;
      EXPECT_TRUE(PlansAt(cluster.daemon(0), "AllReduce", "wire").contains(name));
    });
  }
}

// Also while plans with and without a format take turns.
TEST(Compression, SumsAreAlikeEverywhereWhilePlansChange) {
  TestCluster cluster(4, Compressing("bf16", 0.013, 1));
  RunOnHosts(&cluster, {0, 1, 2, 3, 1}, [&](int rank, ncclComm_t world) {
    SumUpEverything(WireFormat::kBf16, 24, rank, 5, world);
  });
}

// 0.001 is less than one rounding to bfloat16 may bring.
TEST(Compression, NothingIsRoundedThatWouldExceedTheBound) {
  TestCluster cluster(2, Compressing("bf16", 0.001));
  RunOnHosts(&cluster, {0, 1}, [&](int rank, ncclComm_t world) {
    SumUp<float>(ncclFloat32, 400003, WireFormat::kSame, 0, rank, 2, world);
    if (rank != 0 || ::testing::Test::HasFailure()) return;
    const std::set<std::string> formats = PlansAt(cluster.daemon(0), "AllReduce", "wire");
    EXPECT_TRUE(formats.contains("same"));
    EXPECT_FALSE(formats.contains("bf16"));
  });
}

}  // namespace
}  // namespace harmonaize::testing

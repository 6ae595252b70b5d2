// Collectives between hosts: several daemons that reach each other over the loopback device, ranks
// as processes. Every collective x type x operator x {in place, out of place} x memory over many
// placements of ranks; every algorithm in turn; the provider's policies.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "src/numerics/float_formats.h"
#include "src/schedule/algorithms/algorithms.h"
#include "tests/support/cluster.h"
#include "tests/support/nccl_case.h"
#include "tests/support/random_programme.h"
#include "tests/support/rank_runner.h"
#include "tests/support/reference.h"
#include "tests/support/sanitized.h"

namespace harmonaize::testing {
namespace {

// ---------------------------------------------------------------------------------------------
// Results

/// The value of an element of a floating-point type.
double ValueOf(DataType type, const std::byte* at) {
  const auto load = [at]<typename T>(T value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  switch (type) {
    case DataType::kFloat16: return Float16ToFloat(load(uint16_t{}));
    case DataType::kBfloat16: return Bfloat16ToFloat(load(uint16_t{}));
    case DataType::kFloat8E4M3: return Float8E4M3ToFloat(load(uint8_t{}));
    case DataType::kFloat8E5M2: return Float8E5M2ToFloat(load(uint8_t{}));
    case DataType::kFloat32: return load(float{});
    default: return load(double{});
  }
}

/// Half of the distance between neighbours near 1.
double RoundingOf(DataType type) {
  switch (type) {
    case DataType::kFloat16: return 0x1p-11;
    case DataType::kBfloat16: return 0x1p-8;
    case DataType::kFloat8E4M3: return 0x1p-4;
    case DataType::kFloat8E5M2: return 0x1p-3;
    case DataType::kFloat32: return 0x1p-24;
    case DataType::kFloat64: return 0x1p-53;
    default: return 0;
  }
}

/// Between hosts partial results are rounded to the type, in an order that the plan chooses. Bytes
/// must be equal wherever nothing is rounded.
bool Matches(const Case& c, const Bytes& got, const Bytes& expected) {
  if (got == expected) return true;
  const double rounding = RoundingOf(c.type);
  if (!Reduces(c.collective) || rounding == 0 || got.size() != expected.size()) return false;
  const size_t element = DataTypeSize(c.type);
  for (size_t at = 0; at < got.size(); at += element) {
    const double a = ValueOf(c.type, &got[at]);
    const double b = ValueOf(c.type, &expected[at]);
    if (!std::isfinite(a) || !std::isfinite(b)) continue;  // products beyond an 8-bit type's range
    // Elements are up to 3.5, scalars not larger; each partial result is rounded once.
    const double largest = c.op == ReduceOperator::kProd ? std::abs(b) : 13.0 * c.ranks;
    if (std::abs(a - b) > 2 * rounding * c.ranks * largest + 1e-30) return false;
  }
  return true;
}

void RunCase(const Case& c, unsigned ways, int rank, ncclComm_t communicator) {
  RunInWays(Prepare(c), ways, rank, communicator,
            [&](const Bytes& got, const Bytes& expected) { return Matches(c, got, expected); });
}

constexpr size_t kLarge = kSanitized ? 40009 : 300007;
constexpr size_t kLargeForced = kSanitized ? 9001 : 70001;
// Of the combinations of collective, type and operator.
constexpr unsigned kEveryNth = kSanitized ? 7 : 1;
constexpr int kRandomOperations = kSanitized ? 60 : 600;

// ---------------------------------------------------------------------------------------------
// Every type and operator

/// Ranks by host: from two hosts with one rank each to eight with few and many.
const std::vector<int>& Placement(int number) {
  static const std::vector<std::vector<int>> kPlacements = {
      {2, 0, 1, 1, 0},
      {0, 1, 2, 3},
      {3, 1, 0, 2, 1, 1, 0},
      {0, 1, 2, 3, 4, 5, 6, 7},
      {7, 6, 6, 5, 4, 3, 2, 1, 0, 0, 0, 0},
  };
  return kPlacements[static_cast<size_t>(number)];
}
constexpr int kPlacements = 5;
// With sanitizers several ranks of a host will do, in an order of their own, and one rank of each.
constexpr int kPlacementsUsed = kSanitized ? 2 : kPlacements;

class EveryTypeAndOperator : public ::testing::TestWithParam<int> {
 protected:
  static void SetUpTestSuite() { cluster_ = new TestCluster(8); }
  static void TearDownTestSuite() {
    delete cluster_;
    cluster_ = nullptr;
  }
  static TestCluster* cluster_;
};
TestCluster* EveryTypeAndOperator::cluster_ = nullptr;

// Small counts so that every combination has its turn; each placement has another count, and
// another half of the ways, for it. 1 leaves most hosts without anything of their own.
TEST_P(EveryTypeAndOperator, IsRight) {
  const std::vector<int>& placement = Placement(GetParam());
  const auto ranks = static_cast<int>(placement.size());
  RunOnHosts(cluster_, placement, [&](int rank, ncclComm_t communicator) {
    constexpr size_t kCounts[] = {1, 37, 1031};
    unsigned number = static_cast<unsigned>(GetParam());
    for (int collective = 0; collective < kCollectiveCount - 1; ++collective) {
      const bool reduces = Reduces(static_cast<Collective>(collective));
      for (int type = 0; type < kDataTypeCount; ++type) {
        for (int op = 0; op < (reduces ? kReduceOperatorCount : 1); ++op) {
          ++number;
          if (number % kEveryNth != 0) continue;
          const size_t count = kCounts[number / kEveryNth % 3];
          const unsigned ways = number / kEveryNth % 2 == 0 ? kHalfOfTheWays : kOtherHalfOfTheWays;
          RunCase({static_cast<Collective>(collective), static_cast<DataType>(type),
                   static_cast<ReduceOperator>(op), ranks, static_cast<int>(number) % ranks, count},
                  ways, rank, communicator);
          if (::testing::Test::HasFailure()) return;
        }
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Placements, EveryTypeAndOperator, ::testing::Range(0, kPlacementsUsed));

/// All collectives with counts from nothing to several slices.
void RunAllCollectives(int rank, int ranks, ncclComm_t communicator) {
  for (int collective = 0; collective < kCollectiveCount - 1; ++collective) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{37}, size_t{9973}, kLarge}) {
      if (kSanitized && (count == 1 || count == 9973)) continue;
      RunCase({static_cast<Collective>(collective), DataType::kInt32, ReduceOperator::kSum, ranks,
               static_cast<int>(count) % ranks, count},
              kStreamBeside | kStreamInPlace | (count > 10000 ? kHalfOfTheWays : kAllWays), rank,
              communicator);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(Hosts, EverySize) {
  TestCluster cluster(3);
  RunOnHosts(&cluster, {0, 1, 2, 0, 1},
             [](int rank, ncclComm_t communicator) { RunAllCollectives(rank, 5, communicator); });
}

TEST(Hosts, EveryRoot) {
  TestCluster cluster(3);
  RunOnHosts(&cluster, {2, 0, 0, 1}, [](int rank, ncclComm_t communicator) {
    for (const Collective collective :
         {Collective::kReduce, Collective::kBroadcast, Collective::kGather, Collective::kScatter}) {
      for (int root = 0; root < 4; ++root) {
        RunCase({collective, DataType::kInt32, ReduceOperator::kSum, 4, root, 301},
                kSanitized ? kHalfOfTheWays : kAllWays, rank, communicator);
      }
    }
  });
}

// ---------------------------------------------------------------------------------------------
// Algorithms and policies

class PlanFile {
 public:
  explicit PlanFile(const std::string& text) {
    const int fd = mkstemp(path_);
    EXPECT_GE(fd, 0);
    close(fd);
    std::ofstream(path_) << text;
  }
  ~PlanFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_; }

 private:
  char path_[32] = "/tmp/harmonaize-plan-XXXXXX";
};

using enum Collective;

/// Of the table, all that go between hosts; plans of daemons are in place. They are data, which the
/// same code carries out: with sanitizers one that takes an order and one that needs groups will
/// do.
std::vector<const Algorithm*> ForcedAlgorithms() {
  std::vector<const Algorithm*> forced;
  for (const Algorithm& algorithm : Algorithms()) {
    if (algorithm.name == "one-host" || !algorithm.in_place) continue;
    if (kSanitized && algorithm.name != "ring" && algorithm.name != "hierarchical") continue;
    forced.push_back(&algorithm);
  }
  return forced;
}

class ForcedAlgorithm : public ::testing::TestWithParam<const Algorithm*> {};

// The flat fabric that communicators are planned on where the provider has given none calls the
// hosts of a communicator host0, host1, ... in the order of their first ranks.
TEST_P(ForcedAlgorithm, IsUsedAndRight) {
  const Algorithm& forced = *GetParam();
  std::string plan = fmt::format("[plan]\nalgorithm = \"{}\"\npieces = 2\n", forced.name);
  if (forced.takes_order) plan += "order = [\"host2\", \"host0\", \"host3\", \"host1\"]\n";
  if (forced.needs_groups) {
    plan +=
        "[[group]]\nhosts = [\"host0\", \"host2\"]\n[[group]]\nhosts = [\"host1\", \"host3\"]\n";
  }
  const PlanFile file(plan);
  TestCluster cluster(4, fmt::format("[plans]\npolicy = \"fixed\"\nfile = \"{}\"\n", file.path()),
                      "", "", /*keep_logs=*/true);
  RunOnHosts(&cluster, {0, 0, 1, 2, 3, 1}, [&](int rank, ncclComm_t communicator) {
    for (const Collective collective : forced.collectives) {
      // Both halves of the ways, and the first again with more than one slice.
      for (const size_t count : {size_t{1}, size_t{41}, kLargeForced}) {
        RunCase({collective, DataType::kInt32, ReduceOperator::kSum, 6,
                 static_cast<int>(count + 2) % 6, count},
                count == 41 ? kOtherHalfOfTheWays : kHalfOfTheWays, rank, communicator);
      }
    }
  });
  const DaemonProcess& daemon = cluster.daemon(0);
  for (const Collective collective : forced.collectives) {
    EXPECT_TRUE(daemon.WaitForLog(fmt::format("{} of ", CollectiveName(collective))))
        << daemon.Log();
  }
  EXPECT_TRUE(daemon.WaitForLog(fmt::format("on 4 hosts: {} ", forced.name))) << daemon.Log();
  EXPECT_EQ(daemon.Log().find("has no plan"), std::string::npos) << daemon.Log();
}

INSTANTIATE_TEST_SUITE_P(All, ForcedAlgorithm, ::testing::ValuesIn(ForcedAlgorithms()),
                         [](const auto& parameter) {
                           std::string name(parameter.param->name);
                           std::erase(name, '-');
                           return name;
                         });

// What a plan of the operator's does not carry out is planned otherwise, and the log says so.
TEST(Policies, AFixedPlanForOneCollectiveLeavesTheOthers) {
  const PlanFile file("[plan]\nalgorithm = \"direct-gather\"\n");
  TestCluster cluster(2, fmt::format("[plans]\npolicy = \"fixed\"\nfile = \"{}\"\n", file.path()),
                      "", "", /*keep_logs=*/true);
  RunOnHosts(&cluster, {0, 1, 1}, [](int rank, ncclComm_t communicator) {
    RunCase({kAllReduce, DataType::kInt32, ReduceOperator::kSum, 3, 0, 100}, kAllWays, rank,
            communicator);
    RunCase({kGather, DataType::kInt32, ReduceOperator::kSum, 3, 1, 100}, kAllWays, rank,
            communicator);
  });
  const DaemonProcess& daemon = cluster.daemon(0);
  EXPECT_TRUE(daemon.WaitForLog("has no plan for AllReduce")) << daemon.Log();
  EXPECT_TRUE(daemon.WaitForLog("hosts: direct-gather ")) << daemon.Log();
}

TEST(Policies, StaticRing) {
  if (kSanitized) GTEST_SKIP() << "all that it runs ForcedAlgorithm and EverySize have run";
  TestCluster cluster(4, "[plans]\npolicy = \"static-ring\"\n", "", "", /*keep_logs=*/true);
  RunOnHosts(&cluster, {3, 0, 1, 2, 0},
             [](int rank, ncclComm_t communicator) { RunAllCollectives(rank, 5, communicator); });
  const DaemonProcess& daemon = cluster.daemon(3);
  EXPECT_TRUE(daemon.WaitForLog("on 4 hosts: ring ")) << daemon.Log();
  EXPECT_TRUE(daemon.WaitForLog("on 4 hosts: chain ")) << daemon.Log();
}

/// Floats of many sizes with all bits in use: their sum depends on the order.
Bytes AwkwardFloats(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random) * std::exp2(static_cast<float>(random() % 24));
  Bytes bytes(count * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// Bit for bit what adding in the order of the ranks gives, on every placement and for every size.
TEST(Policies, ReproducibleResultsAreThoseOfRankOrder) {
  TestCluster cluster(4, "[plans]\nreproducible = true\n");
  for (const std::vector<int>& placement :
       {std::vector<int>{3, 3, 0, 1, 1, 2}, std::vector<int>{0, 1, 2, 3, 0, 1},
        std::vector<int>{0, 1, 0, 1, 0, 1}, std::vector<int>{0, 0, 0, 0, 0, 0}}) {
    RunOnHosts(&cluster, placement, [](int rank, ncclComm_t communicator) {
      for (const Collective collective : {kAllReduce, kReduce, kReduceScatter}) {
        for (const size_t count : {size_t{5}, size_t{4099}, kLargeForced}) {
          if (kSanitized && count != kLargeForced) continue;
          const Case c{collective, DataType::kFloat32, ReduceOperator::kSum, 6, 4, count};
          std::vector<Bytes> inputs;
          for (int r = 0; r < 6; ++r) {
            const size_t blocks = BlocksOf(collective, 6, r, c.root).send;
            inputs.push_back(AwkwardFloats(count * blocks, static_cast<uint32_t>(r) + 7));
          }
          const std::vector<Bytes> expected = Reference(c, inputs, std::vector<uint64_t>(6));
          RunAndCheck(c, Memory::kHeap, false, rank, inputs[static_cast<size_t>(rank)], 0,
                      expected[static_cast<size_t>(rank)], communicator);
        }
      }
    });
    if (kSanitized) break;
  }
}

// ---------------------------------------------------------------------------------------------
// Random programmes

TEST(RandomOperations, OnSeveralHosts) {
  SCOPED_TRACE("HARMONAIZE_TEST_SEED=" + std::to_string(ProgrammeSeed()));
  const std::vector<int> placement = {1, 0, 2, 0, 1};
  // Bytes can be compared where no order of summing rounds.
  const Programme programme =
      MakeProgramme({.seed = ProgrammeSeed() + 2, .operations = kRandomOperations, .exact = true});
  TestCluster cluster(3);
  RunOnHosts(&cluster, placement,
             [&](int rank, ncclComm_t world) { RunProgramme(programme, rank, world); });
}

}  // namespace
}  // namespace harmonaize::testing

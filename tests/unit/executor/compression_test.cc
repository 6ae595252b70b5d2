// Reducing collectives of several hosts whose messages are in a wire format.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "src/numerics/wire_format.h"
#include "src/schedule/algorithms/algorithms.h"
#include "src/schedule/ir/roundings.h"
#include "tests/support/sanitized.h"
#include "tests/unit/executor/cluster.h"
#include "tests/unit/schedule/fabrics.h"

namespace harmonaize {
namespace {

/// Algorithms that reduce, with a collective.
struct Reducing {
  const Algorithm* algorithm;
  Collective collective;
};

std::vector<Reducing> AllReducing() {
  std::vector<Reducing> all;
  for (const Algorithm* algorithm : AlgorithmsBetweenHosts()) {
    for (const Collective collective : algorithm->collectives) {
      if (Reduces(collective)) all.push_back({algorithm, collective});
    }
  }
  return all;
}

/// Returns a case with so many hosts, of which every third has a second rank.
NetworkCase CaseOf(const Reducing& what, int hosts) {
  NetworkCase made;
  made.algorithm = what.algorithm;
  made.problem.collective = what.collective;
  for (int host = 0; host < hosts; ++host) made.problem.host_of_rank.push_back(host);
  for (int host = 0; host < hosts; host += 3) made.problem.host_of_rank.push_back(host);
  made.problem.root = HasRoot(what.collective) ? 1 : -1;
  made.options.pieces = 2;
  if (what.algorithm->needs_groups) {
    made.options.groups = {{}, {}};
    for (int host = 0; host < hosts; ++host) {
      made.options.groups[host < (hosts + 1) / 2 ? 0 : 1].push_back(host);
    }
  }
  made.type = DataType::kFloat32;
  return made;
}

/// A value of a rank's input, of any size from 2^-6 on, and either sign.
double ValueOf(int rank, size_t i) {
  uint64_t bits = (static_cast<uint64_t>(rank) << 32 | i) * 0x9E3779B97F4A7C15 + 1;
  bits = (bits ^ bits >> 29) * 0xBF58476D1CE4E5B9;
  bits ^= bits >> 32;
  const double mantissa = static_cast<double>(static_cast<int64_t>(bits << 8)) * 0x1p-63;
  return std::ldexp(mantissa, static_cast<int>(bits >> 56) % 12 - 6);
}

template <typename T>
std::vector<uint32_t> Words(int rank, size_t words) {
  std::vector<T> values;
  for (size_t i = 0; i < words * sizeof(uint32_t) / sizeof(T); ++i) {
    values.push_back(static_cast<T>(ValueOf(rank, i)));
  }
  std::vector<uint32_t> result(words);
  if (words == 0) return result;
  std::memcpy(result.data(), values.data(), words * sizeof(uint32_t));
  return result;
}

template <typename T>
std::vector<double> Values(std::span<const uint32_t> words) {
  std::vector<T> values(words.size() * sizeof(uint32_t) / sizeof(T));
  if (values.empty()) return {};
  std::memcpy(values.data(), words.data(), words.size_bytes());
  return {values.begin(), values.end()};
}

std::vector<double> ValuesOf(DataType type, std::span<const uint32_t> words) {
  return type == DataType::kFloat64 ? Values<double>(words) : Values<float>(words);
}

/// Runs cases of floats, and looks at what comes of them.
class CompressedCluster {
 public:
  explicit CompressedCluster(int hosts) : cluster_(hosts, 7) {}

  /// Returns "" or the first thing that is wrong.
  std::string Run(NetworkCase test_case) {
    const bool wide = test_case.type == DataType::kFloat64;
    test_case.fill = wide ? &Words<double> : &Words<float>;
    if (std::string error = cluster_.RunUnchecked(test_case); !error.empty()) return error;
    if (std::string error = CheckInputs(test_case); !error.empty()) return error;
    if (std::string error = CheckErrors(test_case); !error.empty()) return error;
    return test_case.problem.collective == Collective::kAllReduce ? CheckAgreement(test_case) : "";
  }

 private:
  static int RanksOf(const NetworkCase& test_case) {
    return static_cast<int>(test_case.problem.host_of_rank.size());
  }

  std::string CheckInputs(const NetworkCase& test_case) const {
    if (test_case.problem.in_place || test_case.copies_along) return "";
    for (int rank = 0; rank < RanksOf(test_case); ++rank) {
      const std::span<const uint32_t> input = cluster_.input(rank);
      const std::vector<uint32_t> before = test_case.fill(rank, input.size());
      if (!std::equal(input.begin(), input.end(), before.begin())) {
        return fmt::format("the input of rank {} has changed", rank);
      }
    }
    return "";
  }

  std::string CheckAgreement(const NetworkCase& test_case) const {
    const std::span<const uint32_t> first = cluster_.output(0);
    for (int rank = 1; rank < RanksOf(test_case); ++rank) {
      const std::span<const uint32_t> other = cluster_.output(rank);
      const auto differs = std::mismatch(first.begin(), first.end(), other.begin()).first;
      if (differs == first.end()) continue;
      return fmt::format("rank {} has another word {} than rank 0", rank, differs - first.begin());
    }
    return "";
  }

  /// Compares results with sums in float64, by what the planner says of the schedule.
  std::string CheckErrors(const NetworkCase& test_case) const {
    const auto outline = test_case.algorithm->make(test_case.problem, test_case.options);
    const Result<int> roundings = MostRoundings((*outline)->Write());
    if (!roundings.ok()) return roundings.status().ToString();
    const auto piece = static_cast<size_t>(LongestBlock(test_case.count, (*outline)->pieces()));
    const int ranks = RanksOf(test_case);
    const WireFormat format = WireFormatFor(test_case.wire, test_case.type, test_case.op);
    // Beside the format's errors there are those of float32.
    const double bound = WireErrorBound(format, *roundings, ranks) + ranks * 0x1p-23;
    const double divisor = test_case.op == ReduceOperator::kAvg ? ranks : 1;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::vector<double> output = ValuesOf(test_case.type, cluster_.output(rank));
      // The root of a reduce alone has an output, and the n-th rank's part begins at n units.
      const bool scatters = test_case.problem.collective == Collective::kReduceScatter;
      const size_t shift = scatters ? static_cast<size_t>(rank) * test_case.count : 0;
      std::vector<double> errors;
      std::vector<double> magnitudes;
      for (size_t i = 0; i < output.size(); ++i) {
        double sum = 0;
        double magnitude = 0;
        for (int other = 0; other < ranks; ++other) {
          const double value = test_case.type == DataType::kFloat64
                                   ? ValueOf(other, shift + i)
                                   : static_cast<float>(ValueOf(other, shift + i));
          sum += value;
          magnitude += std::fabs(value);
        }
        errors.push_back(std::fabs(output[i] * divisor - sum));
        magnitudes.push_back(magnitude);
      }
      for (size_t i = 0; i < errors.size(); ++i) {
        const bool groups = format == WireFormat::kFp8;
        const double largest =
            groups ? LargestNear(test_case, piece, magnitudes, i) : magnitudes[i];
        if (!(errors[i] <= bound * largest)) {
          return fmt::format("rank {} element {} is off by {}, {} roundings", rank, i, errors[i],
                             *roundings);
        }
      }
    }
    return "";
  }

  /// Returns the largest magnitude of an element's group, in pieces of so many elements.
  static double LargestNear(const NetworkCase& test_case, size_t piece_elements,
                            const std::vector<double>& magnitudes, size_t i) {
    const size_t slice = std::min<size_t>(test_case.slice_elements, piece_elements);
    const size_t piece = i / piece_elements * piece_elements;
    const size_t in_piece = (i - piece) / slice * slice;
    const size_t first = i - (i - piece - in_piece) % kWireGroupElements;
    const size_t last = std::min({first + kWireGroupElements, piece + in_piece + slice,
                                  piece + piece_elements, magnitudes.size()});
    return *std::max_element(magnitudes.begin() + static_cast<ptrdiff_t>(first),
                             magnitudes.begin() + static_cast<ptrdiff_t>(last));
  }

  ExecutorCluster cluster_;
};

class Compression : public testing::TestWithParam<int> {};

// All ranks have the same bits, the inputs are what they were, and the errors are within what is
// promised.
TEST_P(Compression, OfEveryAlgorithm) {
  const int hosts = GetParam();
  CompressedCluster cluster(hosts);
  const CapacityGraph fabric = OneSwitch(std::vector<int64_t>(static_cast<size_t>(hosts), 10));
  for (const Reducing& what : AllReducing()) {
    if (what.algorithm->needs_groups && hosts < 4) continue;
    for (const WireFormat format : {WireFormat::kBf16, WireFormat::kFp8}) {
      for (const uint64_t count : {uint64_t{1}, uint64_t{37}, uint64_t{1501}}) {
        NetworkCase test_case = CaseOf(what, hosts);
        test_case.options.fabric = &fabric;
        test_case.wire = format;
        test_case.count = count;
        test_case.slice_elements = 301;
        ASSERT_EQ(cluster.Run(test_case), "")
            << what.algorithm->name << " " << CollectiveName(what.collective) << " "
            << WireFormatName(format) << " count " << count;
      }
    }
  }
}

/// Of fewer hosts, because copying ranks of many take long.
class CompressionOfKinds : public testing::TestWithParam<int> {};

TEST_P(CompressionOfKinds, AveragesInPlaceScaledAndWide) {
  const int hosts = GetParam();
  CompressedCluster cluster(hosts);
  const CapacityGraph fabric = OneSwitch(std::vector<int64_t>(static_cast<size_t>(hosts), 10));
  for (const Reducing& what : AllReducing()) {
    if (what.algorithm->needs_groups && hosts < 4) continue;
    NetworkCase test_case = CaseOf(what, hosts);
    test_case.options.fabric = &fabric;
    test_case.wire = WireFormat::kFp8;
    test_case.count = 311;
    test_case.slice_elements = 128;
    const auto run = [&] { return cluster.Run(test_case); };
    const auto name = [&] {
      return fmt::format("{} {}", what.algorithm->name, CollectiveName(what.collective));
    };
    test_case.op = ReduceOperator::kAvg;
    ASSERT_EQ(run(), "") << name() << ", average";
    test_case.op = ReduceOperator::kPreMulSum;
    ASSERT_EQ(run(), "") << name() << ", scaled sum";
    test_case.op = ReduceOperator::kSum;
    test_case.type = DataType::kFloat64;
    ASSERT_EQ(run(), "") << name() << ", float64";
    test_case.type = DataType::kFloat32;
    test_case.copies_along = true;
    ASSERT_EQ(run(), "") << name() << ", ranks that copy";
    if (!what.algorithm->in_place) continue;
    test_case.problem.in_place = true;
    ASSERT_EQ(run(), "") << name() << ", in place, ranks that copy";
    test_case.copies_along = false;
    ASSERT_EQ(run(), "") << name() << ", in place";
  }
}

// Three hosts have each kind of step.
INSTANTIATE_TEST_SUITE_P(Hosts, Compression,
                         testing::Range(kSanitized ? 3 : 2, kSanitized ? 4 : 9));
INSTANTIATE_TEST_SUITE_P(Hosts, CompressionOfKinds,
                         testing::Range(kSanitized ? 3 : 2, kSanitized ? 4 : 6));

TEST(CompressedNetwork, LeavesOtherOperationsAlone) {
  ExecutorCluster cluster(3, 9);
  for (const Reducing& what : AllReducing()) {
    NetworkCase test_case = MakeNetworkCase(*what.algorithm, what.collective);
    test_case.wire = WireFormat::kFp8;
    test_case.count = 333;
    test_case.slice_elements = 100;
    ASSERT_EQ(cluster.Run(test_case), "") << what.algorithm->name;
  }
}

TEST(CompressedNetwork, EndsWhereverItIsCanceledAndStartsAnew) {
  ExecutorCluster cluster(3, 3);
  NetworkCase test_case = MakeNetworkCase(*FindAlgorithm("ring"), Collective::kAllReduce);
  test_case.type = DataType::kFloat32;
  test_case.wire = WireFormat::kBf16;
  test_case.count = 2000;
  test_case.slice_elements = 64;
  for (int host = 0; host < 3; ++host) {
    cluster.RunIntoCut(test_case, host);
    ASSERT_EQ(cluster.RunUnchecked(test_case), "") << "after host " << host;
  }
}

}  // namespace
}  // namespace harmonaize

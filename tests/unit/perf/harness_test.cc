// The parts of the benchmark harness: conversions, patterns, comparison, launch, rendezvous.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <thread>

#include "perf/harness/bootstrap.h"
#include "perf/harness/data_type.h"
#include "perf/harness/launch.h"
#include "perf/harness/options.h"
#include "perf/harness/pattern.h"
#include "perf/harness/team.h"
#include "perf/harness/verification.h"

namespace harmonaize::perf {
namespace {

TEST(DataType, SmallFloatsSurviveARoundTrip) {
  for (const TypeInfo& type : AllTypes()) {
    if (!type.is_float || type.size > 2) continue;
    for (uint32_t bits = 0; bits < 1u << (type.size * 8); ++bits) {
      std::array<std::byte, 2> in{std::byte(bits & 0xFF), std::byte(bits >> 8)};
      const double value = DecodeFloat(type, in.data());
      if (!std::isfinite(value)) continue;
      std::array<std::byte, 2> out{};
      EncodeFloat(type, value, out.data());
      ASSERT_EQ(in, out) << type.name << " " << bits << " = " << value;
    }
  }
}

TEST(DataType, KnownEncodings) {
  const auto bits = [](const char* name, double value) {
    uint16_t out = 0;
    EncodeFloat(*FindType(name), value, &out);
    return out;
  };
  EXPECT_EQ(bits("half", 1.0), 0x3C00);
  EXPECT_EQ(bits("half", 65504.0), 0x7BFF);
  EXPECT_EQ(bits("half", std::ldexp(1, -24)), 0x0001);
  EXPECT_EQ(bits("bfloat16", -2.0), 0xC000);
  EXPECT_EQ(bits("f8e4m3", 448.0), 0x7E);
  EXPECT_EQ(bits("f8e4m3", 1.0), 0x38);
  EXPECT_EQ(bits("f8e5m2", 57344.0), 0x7B);
  // Halfway cases go to the even neighbour, and a carry reaches the exponent.
  EXPECT_EQ(bits("f8e4m3", 1.0625), 0x38);
  EXPECT_EQ(bits("f8e4m3", 1.1875), 0x3A);
  EXPECT_EQ(bits("f8e4m3", 1.96875), 0x40);
  EXPECT_TRUE(std::isnan(DecodeFloat(*FindType("f8e4m3"), "\x7F")));
}

// Reduces in an arbitrary order with an accumulator of the type itself, the least precise one that
// is possible, and expects exactly what the pattern says.
TEST(Pattern, FloatSumsAndProductsAreExactInAnyOrder) {
  std::mt19937 random(1);
  for (const TypeInfo& type : AllTypes()) {
    if (!type.is_float) continue;
    for (const Operator op : {Operator::kSum, Operator::kProd, Operator::kMin, Operator::kMax}) {
      for (const int ranks : {1, 2, 3, 5, 8, 31}) {
        Pattern pattern(type, op, ranks, 7);
        const std::vector<std::byte> expected = pattern.Reduced();
        std::vector<int> order(static_cast<size_t>(ranks));
        for (int i = 0; i < ranks; ++i) order[static_cast<size_t>(i)] = i;
        for (size_t index = 0; index < 2000; ++index) {
          std::shuffle(order.begin(), order.end(), random);
          std::array<std::byte, 8> accumulator{};
          for (size_t i = 0; i < order.size(); ++i) {
            const std::byte* input = pattern.Input(order[i]).data() + index * type.size;
            const double value = DecodeFloat(type, input);
            const double before = DecodeFloat(type, accumulator.data());
            const double after = i == 0                  ? value
                                 : op == Operator::kSum  ? before + value
                                 : op == Operator::kProd ? before * value
                                 : op == Operator::kMin  ? std::min(before, value)
                                                         : std::max(before, value);
            EncodeFloat(type, after, accumulator.data());
          }
          ASSERT_TRUE(
              pattern.Accepts(accumulator.data(), expected.data() + index * type.size, index, true))
              << type.name << " " << OperatorName(op) << " " << ranks << " ranks";
          ASSERT_TRUE(std::isfinite(DecodeFloat(type, accumulator.data())));
        }
      }
    }
  }
}

// Both ways of averaging that NCCL uses are accepted, the value one unit further away is not.
TEST(Pattern, AverageTolerance) {
  for (const char* name : {"half", "bfloat16", "f8e4m3", "f8e5m2", "float"}) {
    const TypeInfo& type = *FindType(name);
    for (const int ranks : {2, 3, 7, 41}) {
      Pattern pattern(type, Operator::kAvg, ranks, 3);
      const std::vector<std::byte> expected = pattern.Reduced();
      for (size_t index = 0; index < 3000; ++index) {
        float sum = 0;
        float premultiplied = 0;
        const float factor = 1.0f / static_cast<float>(ranks);
        for (int rank = 0; rank < ranks; ++rank) {
          const auto value =
              static_cast<float>(DecodeFloat(type, pattern.Input(rank).data() + index * type.size));
          sum += value;
          premultiplied += value * factor;
        }
        const std::byte* want = expected.data() + index * type.size;
        std::array<std::byte, 4> got{};
        EncodeFloat(type, static_cast<double>(sum * factor), got.data());
        ASSERT_TRUE(pattern.Accepts(got.data(), want, index, true)) << name << " " << ranks;
        EncodeFloat(type, static_cast<double>(premultiplied), got.data());
        ASSERT_TRUE(pattern.Accepts(got.data(), want, index, true)) << name << " " << ranks;
        const double exact = DecodeFloat(type, want);
        EncodeFloat(type, exact + 2 * UnitInTheLastPlace(type, exact), got.data());
        // Near zero the accumulator's error is worth many units.
        if (type.size <= 2 && UnitInTheLastPlace(type, exact) > 0.01) {
          ASSERT_FALSE(pattern.Accepts(got.data(), want, index, true)) << name << " " << exact;
        }
      }
    }
  }
}

TEST(Pattern, IntegerResultsStayInRange) {
  for (const int ranks : {1, 2, 3, 8, 200}) {
    const TypeInfo& type = *FindType("int8");
    Pattern sum(type, Operator::kSum, ranks, 5);
    Pattern average(type, Operator::kAvg, ranks, 5);
    for (size_t index = 0; index < 1000; ++index) {
      int exact = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        exact += static_cast<int8_t>(sum.Input(rank)[index]);
      }
      ASSERT_LE(std::abs(exact), 127);
      ASSERT_EQ(static_cast<int8_t>(sum.Reduced()[index]), exact);
      ASSERT_EQ(static_cast<int8_t>(average.Reduced()[index]), exact / ranks);
    }
  }
}

TEST(Pattern, RanksAndSeedsAndElementsDiffer) {
  const TypeInfo& type = *FindType("float");
  Pattern pattern(type, Operator::kSum, 4, 1);
  Pattern other(type, Operator::kSum, 4, 2);
  EXPECT_NE(pattern.Input(0), pattern.Input(1));
  EXPECT_NE(pattern.Input(0), other.Input(0));
  EXPECT_NE(pattern.Reduced(), other.Reduced());
  EXPECT_NE(0, std::memcmp(pattern.Input(0).data(), pattern.Input(0).data() + 1024 * 4, 4096));
}

class Comparison : public testing::Test {
 protected:
  static constexpr size_t kCount = 50000;  // several periods
  Comparison() : output_(kCount * 4) {
    const std::vector<std::byte>& period = pattern_.Reduced();
    for (size_t i = 0; i < output_.size(); ++i) output_[i] = period[i % period.size()];
  }
  Mismatches Compare() {
    return CompareOutput(pattern_, {{Segment::Source::kReduced, 0, kCount}}, output_.data());
  }
  Pattern pattern_{*FindType("float"), Operator::kSum, 3, 9};
  std::vector<std::byte> output_;
};

TEST_F(Comparison, AcceptsTheExpectedResult) {
  EXPECT_EQ(Compare().count, 0u);
}

TEST_F(Comparison, CountsEveryWrongElementOnce) {
  output_[0] ^= std::byte{1};
  output_[1] ^= std::byte{1};  // the same element
  output_[(kCount - 1) * 4] ^= std::byte{1};
  const Mismatches mismatches = Compare();
  EXPECT_EQ(mismatches.count, 2u);
  EXPECT_TRUE(mismatches.first.starts_with("element 0 is")) << mismatches.first;
}

TEST_F(Comparison, SeesDataThatLandedInTheWrongChunk) {
  std::vector<std::byte> shifted = output_;
  std::rotate(shifted.begin(), shifted.begin() + 65536, shifted.end());
  output_ = shifted;
  EXPECT_GT(Compare().count, kCount / 2);
}

TEST_F(Comparison, ForgivesTheSignOfZeroAndNothingElse) {
  for (size_t i = 0; i < kCount; ++i) {
    float value;
    std::memcpy(&value, output_.data() + i * 4, 4);
    if (value == 0) {
      value = -0.0f;
      std::memcpy(output_.data() + i * 4, &value, 4);
    }
  }
  EXPECT_EQ(Compare().count, 0u);
  const float nan = std::nanf("");
  std::memcpy(output_.data(), &nan, 4);
  EXPECT_EQ(Compare().count, 1u);
}

TEST_F(Comparison, UntouchedMeansUntouched) {
  std::fill(output_.begin(), output_.end(), kPoison);
  const std::vector<Segment> segments{{Segment::Source::kUntouched, 0, kCount}};
  EXPECT_EQ(CompareOutput(pattern_, segments, output_.data()).count, 0u);
  output_[77] = std::byte{0};
  EXPECT_EQ(CompareOutput(pattern_, segments, output_.data()).count, 1u);
}

TEST(BufferGuards, DamageIsCounted) {
  Buffer buffer;
  ASSERT_TRUE(buffer.Allocate(Memory::kHeap, 1000).ok());
  buffer.ArmGuards(100);
  EXPECT_EQ(buffer.DamagedGuardBytes(), 0u);
  buffer.data()[99] = std::byte{1};
  EXPECT_EQ(buffer.DamagedGuardBytes(), 0u);
  buffer.data()[100] = std::byte{1};
  buffer.data()[-1] = std::byte{1};
  EXPECT_EQ(buffer.DamagedGuardBytes(), 2u);
}

TEST(Sizes, Parse) {
  EXPECT_EQ(*ParseSize("8"), 8u);
  EXPECT_EQ(*ParseSize("32M"), 32u << 20);
  EXPECT_EQ(*ParseSize("1.5k"), 1536u);
  EXPECT_EQ(*ParseSize("2G"), uint64_t{2} << 30);
  for (const char* wrong : {"", "M", "-1", "1T", "1MM", "nan", "1e40"}) {
    EXPECT_FALSE(ParseSize(wrong).ok()) << wrong;
  }
}

Result<Launch> LaunchFrom(const std::map<std::string, std::string>& variables, int parent = 42) {
  return ReadLaunch(
      [&](const char* name) -> const char* {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
      },
      parent);
}

TEST(Launch, Sources) {
  EXPECT_EQ(LaunchFrom({})->processes, 1);
  const Result<Launch> torchrun = LaunchFrom({{"RANK", "3"},
                                              {"WORLD_SIZE", "8"},
                                              {"LOCAL_RANK", "1"},
                                              {"MASTER_ADDR", "host"},
                                              {"MASTER_PORT", "29500"}});
  ASSERT_TRUE(torchrun.ok());
  EXPECT_EQ(torchrun->process, 3);
  EXPECT_EQ(torchrun->processes, 8);
  EXPECT_EQ(torchrun->local_process, 1);
  EXPECT_EQ(torchrun->address, "host");
  EXPECT_EQ(torchrun->port, 29500);
  const Result<Launch> openmpi = LaunchFrom(
      {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"PMIX_NAMESPACE", "77"}});
  ASSERT_TRUE(openmpi.ok());
  EXPECT_EQ(openmpi->source, "Open MPI");
  EXPECT_GE(openmpi->port, 10000);
  const Result<Launch> mpich = LaunchFrom({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}});
  ASSERT_TRUE(mpich.ok());
  EXPECT_EQ(mpich->source, "MPICH");
  EXPECT_NE(mpich->port, LaunchFrom({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}, 43)->port);
}

TEST(Launch, Errors) {
  EXPECT_FALSE(LaunchFrom({{"RANK", "2"}, {"WORLD_SIZE", "2"}}).ok());
  EXPECT_FALSE(LaunchFrom({{"RANK", "x"}, {"WORLD_SIZE", "2"}}).ok());
  EXPECT_FALSE(LaunchFrom({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "70000"}}).ok());
}

// `processes` bootstraps as threads of this process, on a port that nobody listens on.
Launch TestLaunch(int process, int processes) {
  Launch launch;
  launch.process = process;
  launch.processes = processes;
  launch.port = static_cast<uint16_t>(10000 + getpid() % 20000);
  launch.job = "test";
  return launch;
}

TEST(Rendezvous, GathersAndReduces) {
  constexpr int kProcesses = 4;
  std::vector<std::thread> threads;
  for (int process = 0; process < kProcesses; ++process) {
    threads.emplace_back([process] {
      auto bootstrap = Bootstrap::Connect(TestLaunch(process, kProcesses), {});
      ASSERT_TRUE(bootstrap.ok()) << bootstrap.status().ToString();
      const auto all = (*bootstrap)->AllGather("from " + std::to_string(process));
      ASSERT_TRUE(all.ok());
      for (int i = 0; i < kProcesses; ++i) {
        EXPECT_EQ((*all)[static_cast<size_t>(i)], "from " + std::to_string(i));
      }
      Team team(bootstrap->get(), 1);
      const double mine = process + 1;
      EXPECT_EQ(*team.Reduce(0, mine, Combine::kSum), 10);
      EXPECT_EQ(*team.Reduce(0, mine, Combine::kAverage), 2.5);
      EXPECT_EQ(*team.Reduce(0, mine, Combine::kFirst), 1);
      EXPECT_EQ(*team.Reduce(0, mine, Combine::kMaximum), 4);
      EXPECT_TRUE(team.Barrier(0).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Rendezvous, CarriesTheLargestMessages) {
  const std::string message(1 << 20, 'x');
  std::thread other([&] {
    auto bootstrap = Bootstrap::Connect(TestLaunch(1, 2), {});
    ASSERT_TRUE(bootstrap.ok()) << bootstrap.status().ToString();
    const auto all = (*bootstrap)->AllGather(message);
    ASSERT_TRUE(all.ok()) << all.status().ToString();
    EXPECT_EQ(all->at(0), message);
  });
  auto bootstrap = Bootstrap::Connect(TestLaunch(0, 2), {});
  EXPECT_TRUE(bootstrap.ok());
  if (bootstrap.ok()) {
    const auto all = (*bootstrap)->AllGather(message);
    EXPECT_TRUE(all.ok());
  }
  other.join();
}

TEST(Rendezvous, NamesAProcessThatHasGone) {
  std::thread gone([] {
    auto bootstrap = Bootstrap::Connect(TestLaunch(1, 2), {});
    ASSERT_TRUE(bootstrap.ok());
  });
  auto bootstrap = Bootstrap::Connect(TestLaunch(0, 2), {});
  gone.join();
  ASSERT_TRUE(bootstrap.ok());
  const Status status = (*bootstrap)->Barrier();
  EXPECT_EQ(status.code(), Code::kRemoteError);
  EXPECT_NE(status.message().find("process 1"), std::string::npos) << status.message();
}

TEST(Rendezvous, GivesUpOnAProcessThatNeverComes) {
  Bootstrap::Timeouts timeouts;
  timeouts.connect = std::chrono::seconds(1);
  const auto first = Bootstrap::Connect(TestLaunch(0, 2), timeouts);
  EXPECT_FALSE(first.ok());
  const auto second = Bootstrap::Connect(TestLaunch(1, 2), timeouts);
  EXPECT_FALSE(second.ok());
}

TEST(TeamOfThreads, ReducesAndFails) {
  auto bootstrap = Bootstrap::Connect({}, {});
  ASSERT_TRUE(bootstrap.ok());
  Team team(bootstrap->get(), 3);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([thread, &team] {
      for (int round = 0; round < 200; ++round) {
        ASSERT_EQ(*team.Reduce(thread, thread, Combine::kSum), 3);
        ASSERT_EQ(*team.Reduce(thread, thread, Combine::kAverage), 1);
        ASSERT_EQ(*team.Reduce(thread, thread + 5, Combine::kFirst), 5);
      }
      if (thread == 2) {
        team.Fail(InvalidUsage("enough"));
      } else {
        EXPECT_EQ(team.Barrier(thread).message(), "enough");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace harmonaize::perf

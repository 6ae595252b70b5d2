#include "src/numerics/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "src/numerics/reduce_targets.h"
#include "src/numerics/types.h"
#include "tests/unit/numerics/reference.h"

namespace harmonaize {
namespace {

constexpr std::byte kCanary{0xA5};
constexpr size_t kMargin = 128;

/// A buffer at a chosen distance from a cache line boundary, with margins that must stay as they
/// are.
class Buffer {
 public:
  Buffer(size_t bytes, size_t misalignment)
      : bytes_(bytes), memory_(bytes + misalignment + 2 * kMargin + 64, kCanary) {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data()) + kMargin;
    offset_ = kMargin + (0 - address) % 64 + misalignment;
  }
  Buffer(const Bytes& contents, size_t misalignment) : Buffer(contents.size(), misalignment) {
    std::copy(contents.begin(), contents.end(), data());
  }
  std::byte* data() { return memory_.data() + offset_; }
  bool MarginsIntact() const {
    const auto is_canary = [](std::byte byte) { return byte == kCanary; };
    const auto begin = memory_.begin() + static_cast<ptrdiff_t>(offset_);
    return std::all_of(memory_.begin(), begin, is_canary) &&
           std::all_of(begin + static_cast<ptrdiff_t>(bytes_), memory_.end(), is_canary);
  }

 private:
  size_t bytes_;
  Bytes memory_;
  size_t offset_ = 0;
};

/// How the buffers of one call lie; every combination must give the same bits.
struct Layout {
  std::string name;
  /// Of input i and output i: its number times this, modulo 64, away from a cache line.
  size_t input_step;
  size_t output_step;
  size_t base;
  /// Outputs besides those in place.
  size_t outputs;
  bool in_place;
  bool non_temporal;
};

const Layout kLayouts[] = {
    {"aligned", 0, 0, 0, 1, false, false},
    {"aligned, non-temporal", 0, 0, 0, 2, false, true},
    {"alike misaligned, non-temporal", 0, 0, 48, 3, false, true},
    {"differently misaligned, non-temporal", 8, 24, 5, 2, false, true},
    {"odd addresses", 3, 7, 1, 2, false, false},
    {"in place", 0, 0, 16, 0, true, false},
    {"in place and beside, non-temporal", 4, 0, 0, 1, true, true},
};

struct Call {
  DataType type;
  ReduceOperator op;
  std::vector<Bytes> inputs;
  std::vector<uint64_t> scalars;
  uint64_t divisor;
  Bytes expected;
};

Call MakeCall(DataType type, ReduceOperator op, size_t inputs, size_t count,
              std::mt19937_64& random) {
  Call call{type, op, {}, {}, inputs, {}};
  for (size_t i = 0; i < inputs; ++i) call.inputs.push_back(RandomElements(type, count, random));
  const Bytes scalars = RandomElements(type, inputs, random);
  for (size_t i = 0; i < inputs; ++i) {
    uint64_t scalar = 0xDEADBEEFDEADBEEFu;  // what stands above the element is no part of it
    std::memcpy(&scalar, scalars.data() + i * DataTypeSize(type), DataTypeSize(type));
    call.scalars.push_back(scalar);
  }
  call.expected = ReferenceReduce(type, op, call.inputs, call.scalars, call.divisor);
  return call;
}

/// Runs the call in this layout; says what went wrong, if anything did.
std::string Run(const Call& call, const Layout& layout) {
  std::vector<Buffer> inputs;
  std::vector<Buffer> outputs;
  std::vector<const std::byte*> input_pointers;
  std::vector<std::byte*> output_pointers;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    inputs.emplace_back(call.inputs[i], (layout.base + i * layout.input_step) % 64);
  }
  for (size_t i = 0; i < layout.outputs; ++i) {
    outputs.emplace_back(call.expected.size(), (layout.base + i * layout.output_step) % 64);
  }
  for (Buffer& input : inputs) input_pointers.push_back(input.data());
  for (Buffer& output : outputs) output_pointers.push_back(output.data());
  if (layout.in_place) {
    for (Buffer& input : inputs) output_pointers.push_back(input.data());
  }
  Reduce({.type = call.type,
          .op = call.op,
          .inputs = input_pointers,
          .outputs = output_pointers,
          .count = call.expected.size() / DataTypeSize(call.type),
          .scalars = call.scalars,
          .divisor = call.divisor,
          .non_temporal = layout.non_temporal});
  for (size_t i = 0; i < output_pointers.size(); ++i) {
    const std::string difference = Difference(call.type, call.expected, output_pointers[i]);
    if (!difference.empty()) return "output " + std::to_string(i) + ", " + difference;
  }
  for (size_t i = 0; i < inputs.size() && !layout.in_place; ++i) {
    if (!std::equal(call.inputs[i].begin(), call.inputs[i].end(), inputs[i].data())) {
      return "an input has changed";
    }
  }
  for (const auto* buffers : {&inputs, &outputs}) {
    for (const Buffer& buffer : *buffers) {
      if (!buffer.MarginsIntact()) return "bytes outside a buffer have changed";
    }
  }
  return "";
}

/// Runs the call on every target that this processor has, in every layout.
void RunEverywhere(const Call& call) {
  for (const ReduceTarget& target : ReduceTargets()) {
    if (!ForceReduceTarget(target.name)) continue;
    for (const Layout& layout : kLayouts) {
      ASSERT_EQ(Run(call, layout), "")
          << target.name << ", " << layout.name << ", " << call.inputs.size() << " inputs of "
          << call.expected.size() / DataTypeSize(call.type) << " elements";
    }
  }
  ForceReduceTarget("");
}

class ReduceTest : public testing::TestWithParam<std::tuple<int, int>> {
 protected:
  DataType type() const { return static_cast<DataType>(std::get<0>(GetParam())); }
  ReduceOperator op() const { return static_cast<ReduceOperator>(std::get<1>(GetParam())); }
  std::mt19937_64 random_{20'260'101};
};

TEST_P(ReduceTest, AgreesWithTheReferenceInEveryLayoutOnEveryTarget) {
  for (const size_t inputs : {1, 2, 3, 4, 5, 8, 17}) {
    for (const size_t count : {0, 1, 7, 63, 130, 517}) {
      RunEverywhere(MakeCall(type(), op(), inputs, count, random_));
      if (HasFatalFailure()) return;
    }
  }
  // Long enough for the outputs to be aligned and streamed whatever the element's size.
  RunEverywhere(MakeCall(type(), op(), 2, 4331, random_));
}

TEST_P(ReduceTest, TakesManyInputsInGroups) {
  for (const size_t inputs : {16, 17, 24, 100}) {
    RunEverywhere(MakeCall(type(), op(), inputs, 2 * 4096 / DataTypeSize(type()) + 13, random_));
    if (HasFatalFailure()) return;
  }
}

TEST_P(ReduceTest, DoesNotDependOnHowTheBufferIsCut) {
  const Call call = MakeCall(type(), op(), 3, 3000, random_);
  const size_t size = DataTypeSize(type());
  Bytes result(call.expected.size());
  for (size_t begin = 0; begin < 3000;) {
    const size_t count = std::min<size_t>(random_() % 700, 3000 - begin);
    std::vector<const std::byte*> inputs;
    for (const Bytes& input : call.inputs) inputs.push_back(input.data() + begin * size);
    std::byte* const output = result.data() + begin * size;
    Reduce({.type = call.type,
            .op = call.op,
            .inputs = inputs,
            .outputs = {&output, 1},
            .count = count,
            .scalars = call.scalars,
            .divisor = call.divisor});
    begin += count;
  }
  EXPECT_EQ(Difference(type(), call.expected, result.data()), "");
}

INSTANTIATE_TEST_SUITE_P(
    All, ReduceTest,
    testing::Combine(testing::Range(0, kDataTypeCount), testing::Range(0, kReduceOperatorCount)),
    [](const auto& parameters) {
      return std::string(DataTypeName(static_cast<DataType>(std::get<0>(parameters.param)))) + "_" +
             std::string(
                 ReduceOperatorName(static_cast<ReduceOperator>(std::get<1>(parameters.param))));
    });

TEST(Average, DividesByWhatNoElementCouldHold) {
  std::mt19937_64 random(7);
  for (int type = 0; type < kDataTypeCount; ++type) {
    for (const uint64_t divisor : {uint64_t{1}, uint64_t{3}, uint64_t{200}, uint64_t{70'000},
                                   uint64_t{1} << 40, ~uint64_t{0}}) {
      Call call = MakeCall(static_cast<DataType>(type), ReduceOperator::kAvg, 2, 333, random);
      call.divisor = divisor;
      call.expected = ReferenceReduce(call.type, call.op, call.inputs, call.scalars, divisor);
      RunEverywhere(call);
      if (HasFatalFailure()) return;
    }
  }
}

/// Two inputs of one float32 each, on every target.
std::vector<float> ReduceTwo(ReduceOperator op, float a, float b) {
  std::vector<float> results;
  for (const ReduceTarget& target : ReduceTargets()) {
    if (!ForceReduceTarget(target.name)) continue;
    const std::vector<float> first(100, a);
    const std::vector<float> second(100, b);
    std::vector<float> sum(100);
    const std::byte* inputs[] = {reinterpret_cast<const std::byte*>(first.data()),
                                 reinterpret_cast<const std::byte*>(second.data())};
    std::byte* output = reinterpret_cast<std::byte*>(sum.data());
    Reduce({.op = op, .inputs = inputs, .outputs = {&output, 1}, .count = 100});
    results.push_back(sum.front());
    results.push_back(sum.back());
  }
  ForceReduceTarget("");
  return results;
}

TEST(MinimumAndMaximum, NanLosesAgainstANumber) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const ReduceOperator op : {ReduceOperator::kMin, ReduceOperator::kMax}) {
    for (const float result : ReduceTwo(op, nan, 3.0f)) EXPECT_EQ(result, 3.0f);
    for (const float result : ReduceTwo(op, 3.0f, nan)) EXPECT_EQ(result, 3.0f);
    for (const float result : ReduceTwo(op, nan, nan)) EXPECT_TRUE(std::isnan(result));
    for (const float result : ReduceTwo(op, -0.0f, 0.0f)) EXPECT_TRUE(std::signbit(result));
    for (const float result : ReduceTwo(op, 0.0f, -0.0f)) EXPECT_FALSE(std::signbit(result));
  }
}

TEST(CopyToMany, CopiesToEveryDestinationButTheSource) {
  std::mt19937_64 random(3);
  for (const size_t bytes : {0, 1, 63, 64, 1000, 10'007}) {
    for (const size_t destinations : {0, 1, 2, 5, 64, 65, 130}) {
      for (const bool non_temporal : {false, true}) {
        const Bytes contents = RandomElements(DataType::kUint8, bytes, random);
        Buffer source(contents, 9);
        std::vector<Buffer> buffers;
        std::vector<std::byte*> pointers;
        for (size_t i = 0; i < destinations; ++i) buffers.emplace_back(bytes, i % 3 * 21);
        for (Buffer& buffer : buffers) pointers.push_back(buffer.data());
        pointers.insert(pointers.begin() + static_cast<ptrdiff_t>(destinations / 2), source.data());
        CopyToMany(source.data(), pointers, bytes, non_temporal);
        for (Buffer& buffer : buffers) {
          ASSERT_TRUE(std::equal(contents.begin(), contents.end(), buffer.data()));
          ASSERT_TRUE(buffer.MarginsIntact());
        }
        ASSERT_TRUE(std::equal(contents.begin(), contents.end(), source.data()));
        ASSERT_TRUE(source.MarginsIntact());
      }
    }
  }
}

// A tenant says where its buffers lie. What overlaps may hold anything afterwards; all else stays.
TEST(CopyToMany, TouchesNothingElseWhereBuffersOverlap) {
  constexpr size_t kShift = 200;
  for (const size_t bytes : {64, 1000, 10'007}) {
    for (const bool backwards : {false, true}) {
      for (const bool several : {false, true}) {
        Buffer both(bytes + kShift, 9);
        Buffer apart(bytes, 3);
        std::byte* const source = both.data() + (backwards ? kShift : 0);
        std::byte* const overlapping = both.data() + (backwards ? 0 : kShift);
        for (size_t i = 0; i < bytes; ++i) source[i] = static_cast<std::byte>(i % 251);
        std::vector<std::byte*> destinations{overlapping};
        if (several) destinations.push_back(apart.data());
        CopyToMany(source, destinations, bytes, several);
        EXPECT_TRUE(both.MarginsIntact());
        EXPECT_TRUE(apart.MarginsIntact());
      }
    }
  }
}

TEST(ReduceTargets, CanBeForcedAndGivenBack) {
  ASSERT_FALSE(ReduceTargets().empty());
  EXPECT_EQ(ReduceTargets().back().name, "baseline");
  EXPECT_TRUE(ReduceTargets().back().supported);
  const std::string best(CurrentReduceTarget());
  for (const ReduceTarget& target : ReduceTargets()) {
    EXPECT_EQ(ForceReduceTarget(target.name), target.supported);
    if (target.supported) {
      EXPECT_EQ(CurrentReduceTarget(), target.name);
    }
  }
  EXPECT_EQ(CurrentReduceTarget(), "baseline");
  EXPECT_FALSE(ForceReduceTarget("abacus"));
  EXPECT_EQ(CurrentReduceTarget(), "baseline");
  EXPECT_TRUE(ForceReduceTarget(""));
  EXPECT_EQ(CurrentReduceTarget(), best);
}

}  // namespace
}  // namespace harmonaize

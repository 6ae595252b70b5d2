// Sums over buffers in a wire format, on every target, against scalar code.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "src/numerics/float_formats.h"
#include "src/numerics/reduce_targets.h"
#include "src/numerics/reduce_wire.h"
#include "tests/unit/numerics/reference.h"

namespace harmonaize {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Makes one target carry out the reductions.
class WireReduction : public testing::TestWithParam<size_t> {
 protected:
  void SetUp() override {
    const ReduceTarget& target = ReduceTargets()[GetParam()];
    if (!target.supported) GTEST_SKIP() << "this processor lacks " << target.name;
    ASSERT_TRUE(ForceReduceTarget(target.name));
  }
  void TearDown() override { ForceReduceTarget(""); }
};

template <typename T>
constexpr DataType kTypeOf = sizeof(T) == 4 ? DataType::kFloat32 : DataType::kFloat64;

/// Returns the message that stands for some elements, which begins `shift` bytes behind an aligned
/// address.
template <typename T>
Bytes Encode(WireFormat format, const std::vector<T>& values, size_t shift = 0) {
  const size_t bytes = WireBytes(format, kTypeOf<T>, values.size());
  Bytes memory(shift + bytes + 1, std::byte{0x5A});
  const WireBuffer<const std::byte> input{reinterpret_cast<const std::byte*>(values.data()), false};
  const WireBuffer<std::byte> output{memory.data() + shift, true};
  ReduceWire({.format = format,
              .type = kTypeOf<T>,
              .inputs = {&input, 1},
              .outputs = {&output, 1},
              .count = values.size()});
  EXPECT_EQ(memory.back(), std::byte{0x5A}) << "a message is longer than stated";
  return {memory.begin() + static_cast<ptrdiff_t>(shift), memory.end() - 1};
}

template <typename T>
std::vector<T> Decode(WireFormat format, const Bytes& message, size_t count) {
  std::vector<T> values(count + 1, T{77});
  const WireBuffer<const std::byte> input{message.data(), true};
  const WireBuffer<std::byte> output{reinterpret_cast<std::byte*>(values.data()), false};
  ReduceWire({.format = format,
              .type = kTypeOf<T>,
              .inputs = {&input, 1},
              .outputs = {&output, 1},
              .count = count,
              .rounds = false});
  EXPECT_EQ(values.back(), T{77});
  values.pop_back();
  return values;
}

template <typename T>
std::vector<T> Round(WireFormat format, const std::vector<T>& values) {
  return Decode<T>(format, Encode(format, values), values.size());
}

/// Bits of a number, all NaNs being one.
uint64_t BitsOf(double value) {
  return std::isnan(value) ? 0x7FF8000000000000 : std::bit_cast<uint64_t>(value);
}

/// What a group's elements become, element by element.
std::vector<float> RoundFp8(const std::vector<float>& group) {
  float largest = 0;
  for (const float value : group) {
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  }
  // The largest magnitude lies in [2^7, 2^8) once it is rounded to four bits.
  int exponent = -119;
  if (largest > 0) {
    int shift = 0;
    const double mantissa = std::frexp(static_cast<double>(largest), &shift);  // in [0.5, 1)
    const double rounded = std::nearbyint(mantissa * 16) / 16;
    exponent = std::max(exponent, shift - 1 + (rounded >= 1 ? 1 : 0));
  }
  exponent = std::min(exponent, 127);
  std::vector<float> result;
  for (const float value : group) {
    if (!std::isfinite(value)) {
      result.push_back(value);
      continue;
    }
    const auto scaled = static_cast<float>(std::ldexp(static_cast<double>(value), 7 - exponent));
    const float number = Float8E4M3ToFloat(FloatToFloat8E4M3(scaled));
    result.push_back(static_cast<float>(std::ldexp(static_cast<double>(number), exponent - 7)));
  }
  return result;
}

TEST_P(WireReduction, Bf16GivesEveryBfloat16AsItIs) {
  std::vector<float> values;
  for (uint32_t code = 0; code < 0x10000; ++code) {
    values.push_back(Bfloat16ToFloat(static_cast<uint16_t>(code)));
  }
  const std::vector<float> rounded = Round(WireFormat::kBf16, values);
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(BitsOf(values[i]), BitsOf(rounded[i])) << "code " << i;
  }
}

TEST_P(WireReduction, Bf16RoundsToNearestEven) {
  std::mt19937 random(1);
  std::vector<float> values;
  for (int i = 0; i < 100000; ++i)
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  for (const uint32_t bits : {0x3F808000u, 0x3F818000u, 0x3F807FFFu, 0x3F808001u, 0x7F7FFFFFu,
                              0x00000001u, 0x00008000u, 0x00018000u, 0x80008001u}) {
    values.push_back(std::bit_cast<float>(bits));
  }
  const std::vector<float> rounded = Round(WireFormat::kBf16, values);
  for (size_t i = 0; i < values.size(); ++i) {
    const float expected = Bfloat16ToFloat(FloatToBfloat16(values[i]));
    ASSERT_EQ(BitsOf(expected), BitsOf(rounded[i])) << values[i];
  }
}

// Rounding to float32 on the way must not show.
TEST_P(WireReduction, Bf16OfFloat64IsRoundedOnce) {
  const double tie = 1 + 0x1p-8;  // between two bfloat16
  const std::vector<double> values = {tie,
                                      std::nextafter(tie, 2.0),
                                      std::nextafter(tie, 0.0),
                                      -std::nextafter(tie, 2.0),
                                      tie + 0x1p-7,
                                      std::nextafter(tie + 0x1p-7, 0.0),
                                      1e300,
                                      -1e300,
                                      std::nan(""),
                                      static_cast<double>(kInfinity),
                                      1e-300,
                                      0.0};
  const std::vector<double> expected = {1,
                                        1 + 0x1p-7,
                                        1,
                                        -1 - 0x1p-7,
                                        1 + 0x1p-6,
                                        1 + 0x1p-7,
                                        static_cast<double>(kInfinity),
                                        -static_cast<double>(kInfinity),
                                        std::nan(""),
                                        static_cast<double>(kInfinity),
                                        0.0,
                                        0.0};
  const std::vector<double> rounded = Round(WireFormat::kBf16, values);
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(BitsOf(expected[i]), BitsOf(rounded[i])) << values[i];
  }
}

TEST_P(WireReduction, Fp8RoundsEachGroupByItsLargestMagnitude) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  for (const size_t count : {1u, 2u, 63u, 255u, 256u, 257u, 1000u}) {
    for (const float scale : {1.0f, 1e-38f, 1e-44f, 3e37f, 1000.0f}) {
      std::vector<float> values;
      for (size_t i = 0; i < count; ++i) values.push_back(normal(random) * scale);
      if (count > 300) values[300] = kInfinity;
      if (count > 301) values[301] = std::nanf("");
      if (count > 302) values[302] = -kInfinity;
      const std::vector<float> rounded = Round(WireFormat::kFp8, values);
      for (size_t first = 0; first < count; first += kWireGroupElements) {
        const size_t last = std::min(count, first + kWireGroupElements);
        const std::vector<float> expected =
            RoundFp8({values.begin() + static_cast<ptrdiff_t>(first),
                      values.begin() + static_cast<ptrdiff_t>(last)});
        for (size_t i = first; i < last; ++i) {
          ASSERT_EQ(BitsOf(expected[i - first]), BitsOf(rounded[i]))
              << values[i] << " at " << i << " of " << count << " times " << scale;
        }
      }
      EXPECT_EQ(Encode(WireFormat::kFp8, rounded), Encode(WireFormat::kFp8, values))
          << "what was rounded is rounded again";
    }
  }
}

TEST_P(WireReduction, Fp8OfNothingButZerosOrInfinities) {
  const std::vector<float> values = {0.0f, -0.0f, kInfinity, -kInfinity, std::nanf("")};
  const std::vector<float> rounded = Round(WireFormat::kFp8, values);
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(BitsOf(values[i]), BitsOf(rounded[i]));
}

TEST_P(WireReduction, ErrorsStayWithinTheBound) {
  std::mt19937 random(3);
  for (const WireFormat format : {WireFormat::kBf16, WireFormat::kFp8}) {
    std::vector<float> values;
    for (int i = 0; i < 50000; ++i) {
      values.push_back(std::ldexp(static_cast<float>(random() % 65536) - 32768.0f,
                                  static_cast<int>(random() % 24)));
    }
    const std::vector<float> rounded = Round(format, values);
    const double bound = WireErrorBound(format, 1, 1);
    for (size_t first = 0; first < values.size(); first += kWireGroupElements) {
      double largest = 0;
      double worst = 0;
      for (size_t i = first; i < std::min(values.size(), first + kWireGroupElements); ++i) {
        largest = std::max(largest, std::fabs(static_cast<double>(values[i])));
        worst = std::max(
            worst, std::fabs(static_cast<double>(values[i]) - static_cast<double>(rounded[i])));
      }
      ASSERT_LE(worst, bound * largest) << WireFormatName(format);
    }
  }
}

/// Draws sums of encoded and other inputs, and compares them with sums by plain loops.
template <typename T>
void CheckSums(WireFormat format, bool scales, bool rounds) {
  std::mt19937 random(4);
  std::normal_distribution<double> normal;
  for (const size_t count : {0u, 1u, 5u, 16u, 255u, 256u, 700u}) {
    for (size_t inputs = 1; inputs <= 3; ++inputs) {
      std::vector<Bytes> memory;
      std::vector<WireBuffer<const std::byte>> sources;
      std::vector<uint64_t> scalars;
      std::vector<T> sum(count, T{0});
      for (size_t input = 0; input < inputs; ++input) {
        std::vector<T> values;
        for (size_t i = 0; i < count; ++i) values.push_back(static_cast<T>(normal(random)));
        const bool encoded = input == 1;
        const T scalar = scales && !encoded ? static_cast<T>(1.25) : T{1};
        uint64_t bits = 0;
        std::memcpy(&bits, &scalar, sizeof(scalar));
        scalars.push_back(bits);
        const size_t shift = 1 + input;  // at odd addresses
        memory.emplace_back(shift + count * sizeof(T) + kWireScaleBytes * 8);
        std::byte* const at = memory.back().data() + shift;
        if (encoded) {
          const Bytes message = Encode(format, values);
          std::copy(message.begin(), message.end(), at);
          values = Decode<T>(format, message, count);
        } else if (count > 0) {
          std::memcpy(at, values.data(), count * sizeof(T));
        }
        sources.push_back({at, encoded});
        for (size_t i = 0; i < count; ++i) {
          const T scaled = values[i] * scalar;
          sum[i] = input == 0 ? scaled : sum[i] + scaled;
        }
      }
      const Bytes message = Encode(format, sum);
      const std::vector<T> expected = rounds ? Decode<T>(format, message, count) : sum;
      Bytes native(3 + count * sizeof(T));
      Bytes encoded(1 + message.size());
      const std::vector<WireBuffer<std::byte>> targets = {{native.data() + 3, false},
                                                          {encoded.data() + 1, true}};
      WireReduceArguments arguments{.format = format,
                                    .type = kTypeOf<T>,
                                    .inputs = sources,
                                    .outputs = targets,
                                    .count = count,
                                    .rounds = rounds};
      if (scales) arguments.scalars = scalars;
      ReduceWire(arguments);
      ASSERT_TRUE(std::equal(message.begin(), message.end(), encoded.begin() + 1));
      ASSERT_EQ(Difference(kTypeOf<T>,
                           Bytes(reinterpret_cast<const std::byte*>(expected.data()),
                                 reinterpret_cast<const std::byte*>(expected.data() + count)),
                           native.data() + 3),
                "")
          << WireFormatName(format) << ", " << inputs << " inputs of " << count;
    }
  }
}

TEST_P(WireReduction, AddsWhatIsEncodedAndWhatIsNot) {
  for (const bool scales : {false, true}) {
    for (const bool rounds : {false, true}) {
      CheckSums<float>(WireFormat::kBf16, scales, rounds);
      CheckSums<float>(WireFormat::kFp8, scales, rounds);
      CheckSums<double>(WireFormat::kBf16, scales, rounds);
    }
  }
}

// As its threads do that share it.
TEST_P(WireReduction, MayBeCutAtGranules) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> values;
  for (int i = 0; i < 1000; ++i) values.push_back(normal(random));
  for (const WireFormat format : {WireFormat::kBf16, WireFormat::kFp8}) {
    const Bytes whole = Encode(format, values);
    const size_t cut = format == WireFormat::kFp8 ? 512 : 333;
    const std::vector<float> first(values.begin(), values.begin() + static_cast<ptrdiff_t>(cut));
    const std::vector<float> second(values.begin() + static_cast<ptrdiff_t>(cut), values.end());
    Bytes parts = Encode(format, first);
    EXPECT_EQ(parts.size(), WireBytes(format, DataType::kFloat32, cut));
    const Bytes rest = Encode(format, second, 1);
    parts.insert(parts.end(), rest.begin(), rest.end());
    EXPECT_EQ(parts, whole) << WireFormatName(format);
  }
}

TEST_P(WireReduction, MayBeInPlace) {
  std::vector<float> values(700, 1.00390625f);
  values[0] = 1000;
  for (const WireFormat format : {WireFormat::kBf16, WireFormat::kFp8}) {
    const std::vector<float> expected = Round(format, values);
    std::vector<float> memory = values;
    auto* const at = reinterpret_cast<std::byte*>(memory.data());
    const WireBuffer<const std::byte> input{at, false};
    const WireBuffer<std::byte> output{at, false};
    ReduceWire(
        {.format = format, .inputs = {&input, 1}, .outputs = {&output, 1}, .count = values.size()});
    EXPECT_EQ(memory, expected) << WireFormatName(format);
  }
}

INSTANTIATE_TEST_SUITE_P(All, WireReduction, testing::Range<size_t>(0, ReduceTargets().size()),
                         [](const auto& parameters) {
                           return std::string(ReduceTargets()[parameters.param].name);
                         });

TEST(WireFormats, AreForSumsOfFloats) {
  using enum WireFormat;
  EXPECT_EQ(WireFormatFor(kBf16, DataType::kFloat32, ReduceOperator::kSum), kBf16);
  EXPECT_EQ(WireFormatFor(kFp8, DataType::kFloat32, ReduceOperator::kAvg), kFp8);
  EXPECT_EQ(WireFormatFor(kFp8, DataType::kFloat64, ReduceOperator::kSum), kBf16);
  EXPECT_EQ(WireFormatFor(kBf16, DataType::kFloat32, ReduceOperator::kMax), kSame);
  EXPECT_EQ(WireFormatFor(kBf16, DataType::kBfloat16, ReduceOperator::kSum), kSame);
  EXPECT_EQ(WireFormatFor(kBf16, DataType::kInt32, ReduceOperator::kSum), kSame);
  EXPECT_EQ(WireFormatFor(kSame, DataType::kFloat32, ReduceOperator::kSum), kSame);
}

TEST(WireFormats, HaveSizesThatFollowFromTheCount) {
  EXPECT_EQ(WireBytes(WireFormat::kSame, DataType::kFloat64, 3), 24u);
  EXPECT_EQ(WireBytes(WireFormat::kBf16, DataType::kFloat64, 3), 6u);
  EXPECT_EQ(WireBytes(WireFormat::kFp8, DataType::kFloat32, 0), 0u);
  EXPECT_EQ(WireBytes(WireFormat::kFp8, DataType::kFloat32, 1), 5u);
  EXPECT_EQ(WireBytes(WireFormat::kFp8, DataType::kFloat32, 256), 260u);
  EXPECT_EQ(WireBytes(WireFormat::kFp8, DataType::kFloat32, 257), 265u);
}

TEST(WireFormats, HaveNames) {
  for (int i = 0; i < kWireFormatCount; ++i) {
    const auto format = static_cast<WireFormat>(i);
    EXPECT_EQ(FindWireFormat(WireFormatName(format)), format);
  }
  EXPECT_EQ(FindWireFormat("fp16"), std::nullopt);
}

TEST(WireFormats, BoundTheErrorsOfSeveralRoundings) {
  EXPECT_EQ(WireErrorBound(WireFormat::kSame, 9, 9), 0);
  EXPECT_DOUBLE_EQ(WireErrorBound(WireFormat::kBf16, 1, 2), 0x1p-8);
  EXPECT_GT(WireErrorBound(WireFormat::kBf16, 4, 4), 4 * 0x1p-8);
  EXPECT_LT(WireErrorBound(WireFormat::kBf16, 4, 4), 4.03 * 0x1p-8);
  EXPECT_GT(WireErrorBound(WireFormat::kFp8, 1, 4), 0x1p-4);
}

}  // namespace
}  // namespace harmonaize

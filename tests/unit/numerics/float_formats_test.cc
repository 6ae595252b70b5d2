// The conversions of float_formats.h against a description of the formats that shares nothing with
// them: values by ldexp, rounding by a search for the nearest value.

#include "src/numerics/float_formats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace harmonaize {
namespace {

struct Description {
  std::string name;
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;
  bool saturates;
  float (*to_float)(uint32_t);
  uint32_t (*from_float)(float);

  int bits() const { return 1 + exponent_bits + mantissa_bits; }
  uint32_t sign_bit() const { return 1u << (bits() - 1); }
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }

  bool IsNan(uint32_t magnitude) const {
    const uint32_t exponent = magnitude >> mantissa_bits;
    const uint32_t mantissa = magnitude & ((1u << mantissa_bits) - 1);
    const bool top = exponent == (1u << exponent_bits) - 1;
    return top && (has_infinity ? mantissa != 0 : mantissa == (1u << mantissa_bits) - 1);
  }
  bool IsInfinity(uint32_t magnitude) const {
    return has_infinity && magnitude == ((1u << exponent_bits) - 1) << mantissa_bits;
  }
  /// The value of a magnitude, as if infinity were an ordinary number, which is how IEEE 754
  /// rounds.
  double Value(uint32_t magnitude) const {
    const int exponent = static_cast<int>(magnitude >> mantissa_bits);
    const int mantissa = static_cast<int>(magnitude & ((1u << mantissa_bits) - 1));
    if (exponent == 0) return std::ldexp(mantissa, 1 - bias() - mantissa_bits);
    return std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias() - mantissa_bits);
  }
  /// All magnitudes that are numbers, or infinity, in rising order.
  std::vector<uint32_t> Magnitudes() const {
    std::vector<uint32_t> magnitudes;
    for (uint32_t magnitude = 0; magnitude < sign_bit(); ++magnitude) {
      if (IsNan(magnitude)) break;
      if (saturates && IsInfinity(magnitude)) break;
      magnitudes.push_back(magnitude);
    }
    return magnitudes;
  }
};

class FloatFormats : public testing::TestWithParam<Description> {};

TEST_P(FloatFormats, EveryValueIsWhatTheFormatSays) {
  const Description& format = GetParam();
  for (uint32_t bits = 0; bits < 2 * format.sign_bit(); ++bits) {
    const uint32_t magnitude = bits & (format.sign_bit() - 1);
    const bool negative = (bits & format.sign_bit()) != 0;
    const float value = format.to_float(bits);
    ASSERT_EQ(std::signbit(value), negative) << bits;
    if (format.IsNan(magnitude)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_NE(std::bit_cast<uint32_t>(value) & 0x00400000u, 0u) << "signalling: " << bits;
    } else if (format.IsInfinity(magnitude)) {
      ASSERT_TRUE(std::isinf(value)) << bits;
    } else {
      ASSERT_EQ(std::fabs(static_cast<double>(value)), format.Value(magnitude)) << bits;
    }
  }
}

TEST_P(FloatFormats, EveryValueComesBack) {
  const Description& format = GetParam();
  for (uint32_t bits = 0; bits < 2 * format.sign_bit(); ++bits) {
    const uint32_t magnitude = bits & (format.sign_bit() - 1);
    const uint32_t back = format.from_float(format.to_float(bits));
    if (format.IsNan(magnitude)) {
      ASSERT_TRUE(format.IsNan(back & (format.sign_bit() - 1))) << bits;
      ASSERT_EQ(back & format.sign_bit(), bits & format.sign_bit());
    } else if (format.saturates && format.IsInfinity(magnitude)) {
      ASSERT_EQ(back, bits - 1) << "infinity saturates";
    } else {
      ASSERT_EQ(back, bits);
    }
  }
}

TEST_P(FloatFormats, RoundsToTheNearestValueTiesToEven) {
  const Description& format = GetParam();
  const std::vector<uint32_t> magnitudes = format.Magnitudes();
  const auto check = [&](float value) {
    if (!(value >= 0) || std::isinf(value)) return;
    // The first magnitude whose value is not below; the last one takes all that lies beyond.
    const auto above =
        std::lower_bound(magnitudes.begin(), magnitudes.end(), static_cast<double>(value),
                         [&](uint32_t magnitude, double v) { return format.Value(magnitude) < v; });
    uint32_t expected = magnitudes.back();
    if (above == magnitudes.begin()) {
      expected = *above;
    } else if (above != magnitudes.end()) {
      const uint32_t below = *(above - 1);
      const double down = static_cast<double>(value) - format.Value(below);
      const double up = format.Value(*above) - static_cast<double>(value);
      expected = down < up || (down == up && below % 2 == 0) ? below : *above;
    }
    ASSERT_EQ(format.from_float(value), expected) << format.name << " " << value;
    ASSERT_EQ(format.from_float(-value), expected | format.sign_bit())
        << format.name << " " << value;
  };
  const float infinity = std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < magnitudes.size(); ++i) {
    const double here = format.Value(magnitudes[i]);
    const double next = i + 1 < magnitudes.size() ? format.Value(magnitudes[i + 1]) : 2 * here;
    // A midpoint is exact in float32 unless the format is bfloat16 near float32's own limits.
    for (const double point : {here, here + (next - here) / 2, here + (next - here) / 3}) {
      const auto value = static_cast<float>(point);
      check(value);
      check(std::nextafter(value, 0.0f));
      check(std::nextafter(value, infinity));
    }
  }
  check(std::numeric_limits<float>::max());
  check(std::numeric_limits<float>::denorm_min());
  check(std::numeric_limits<float>::min());
  const uint32_t overflow = magnitudes.back();
  EXPECT_EQ(format.from_float(infinity), overflow);
  EXPECT_EQ(format.from_float(-infinity), overflow | format.sign_bit());
}

const Description kDescriptions[] = {
    {"float16", 5, 10, true, false, &ToFloat<kFloat16Format>, &FromFloat<kFloat16Format>},
    {"bfloat16", 8, 7, true, false, &ToFloat<kBfloat16Format>, &FromFloat<kBfloat16Format>},
    {"float8e4m3", 4, 3, false, true, &ToFloat<kFloat8E4M3Format>, &FromFloat<kFloat8E4M3Format>},
    {"float8e5m2", 5, 2, true, true, &ToFloat<kFloat8E5M2Format>, &FromFloat<kFloat8E5M2Format>},
};
INSTANTIATE_TEST_SUITE_P(All, FloatFormats, testing::ValuesIn(kDescriptions),
                         [](const auto& described) { return described.param.name; });

TEST(FloatFormats, KnownValues) {
  static_assert(Float16ToFloat(0x3C00) == 1.0f);
  static_assert(Bfloat16ToFloat(0xBF80) == -1.0f);
  static_assert(Float8E4M3ToFloat(0x7E) == 448.0f);
  static_assert(Float8E5M2ToFloat(0x7B) == 57344.0f);
  static_assert(FloatToFloat16(65504.0f) == 0x7BFF && FloatToFloat16(65520.0f) == 0x7C00);
  static_assert(FloatToFloat8E4M3(464.0f) == 0x7E && FloatToFloat8E4M3(1e30f) == 0x7E);
  static_assert(FloatToFloat8E5M2(-1e30f) == 0xFB);
  static_assert(FloatToBfloat16(1.00390625f) == 0x3F80);  // a tie, to even
}

}  // namespace
}  // namespace harmonaize

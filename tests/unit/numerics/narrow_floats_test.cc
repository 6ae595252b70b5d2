// The vector conversions of every target against the scalar ones. Like the kernels, this file is
// compiled once for each target.

#include "src/numerics/highway_config.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/unit/numerics/narrow_floats_test.cc"
#include <hwy/foreach_target.h>
// Must follow foreach_target.h.
#include <hwy/highway.h>

#include <bit>
#include <cstdint>
#include <cstring>

#include "src/numerics/element_formats-inl.h"
#include "src/numerics/float_formats.h"

#ifndef HARMONAIZE_NARROW_FLOATS_TEST_ONCE
#define HARMONAIZE_NARROW_FLOATS_TEST_ONCE
namespace harmonaize::numerics {

/// Where a vector conversion and a scalar one differ; none after a perfect run.
struct Mismatch {
  bool found = false;
  uint32_t from = 0;
  uint32_t scalar = 0;
  uint32_t vector = 0;
};

struct Conversions {
  Mismatch (*check_split)();
  Mismatch (*check_join)();
};

/// The conversions of float16, bfloat16, float8e4m3, float8e5m2 in this order.
template <int64_t kTarget>
Conversions ConversionsOf(int format);

}  // namespace harmonaize::numerics
#endif

HWY_BEFORE_NAMESPACE();
namespace harmonaize::numerics {
namespace HWY_NAMESPACE {

template <class Format, FloatFormat kFormat>
struct Checks {
  static constexpr size_t kLanes = hn::MaxLanes(FloatTag());
  static constexpr size_t kElements = kLanes * Format::kParts;

  /// Every number of the format, in every lane.
  static Mismatch CheckSplit() {
    for (uint32_t code = 0; code < 2 * kFormat.SignBit(); ++code) {
      uint32_t word = code;
      for (int bits = kFormat.Bits(); bits < 32; bits *= 2) word |= word << bits;
      typename Format::Vector parts[Format::kParts];
      Format::Split(hn::Set(BitsTag(), word), parts);
      uint32_t lanes[kElements];
      for (size_t i = 0; i < Format::kParts; ++i) {
        hn::StoreU(hn::BitCast(BitsTag(), parts[i]), BitsTag(), lanes + i * kLanes);
      }
      auto expected = std::bit_cast<uint32_t>(ToFloat<kFormat>(code));
      // A bfloat16 is a float32 as it stands, quiet or not.
      if (kFormat.Rebias() == 0) expected = code << 16;
      for (const uint32_t lane : lanes) {
        if (lane != expected) return {true, code, expected, lane};
      }
    }
    return {};
  }

  /// Floats with every sign, exponent and upper mantissa, and lower bits on both sides of every
  /// tie.
  static Mismatch CheckJoin() {
    constexpr uint32_t kLowerBits[] = {0,      1,      0x0FFF, 0x1000, 0x1001, 0x3000,
                                       0x7FFF, 0x8000, 0x8001, 0xF000, 0xFFFF};
    for (uint32_t upper = 0; upper < 0x10000; ++upper) {
      for (const uint32_t lower : kLowerBits) {
        const uint32_t bits = upper << 16 | lower;
        typename Format::Vector parts[Format::kParts];
        for (auto& part : parts) part = hn::BitCast(FloatTag(), hn::Set(BitsTag(), bits));
        uint32_t words[kLanes];
        hn::StoreU(Format::Join(parts), BitsTag(), words);
        uint32_t expected = FromFloat<kFormat>(std::bit_cast<float>(bits));
        for (int b = kFormat.Bits(); b < 32; b *= 2) expected |= expected << b;
        for (const uint32_t word : words) {
          if (word != expected) return {true, bits, expected, word};
        }
      }
    }
    return {};
  }
};

template <class Format, FloatFormat kFormat>
Conversions ConversionsOfFormat() {
  return {&Checks<Format, kFormat>::CheckSplit, &Checks<Format, kFormat>::CheckJoin};
}

Conversions TargetConversions(int format) {
  switch (format) {
    case 0: return ConversionsOfFormat<Float16Format, kFloat16Format>();
    case 1: return ConversionsOfFormat<Bfloat16Format, kBfloat16Format>();
    case 2: return ConversionsOfFormat<NarrowFormat<kFloat8E4M3Format>, kFloat8E4M3Format>();
    default: return ConversionsOfFormat<NarrowFormat<kFloat8E5M2Format>, kFloat8E5M2Format>();
  }
}

}  // namespace HWY_NAMESPACE

template <>
Conversions ConversionsOf<HWY_TARGET>(int format) {
  return HWY_NAMESPACE::TargetConversions(format);
}

}  // namespace harmonaize::numerics
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <tuple>

#include "src/numerics/reduce_targets.h"

namespace harmonaize::numerics {
namespace {

Conversions ConversionsByName(std::string_view target, int format) {
#if HWY_TARGETS & HWY_AVX3
  if (target == "avx3") return ConversionsOf<HWY_AVX3>(format);
#endif
#if HWY_TARGETS & HWY_AVX2
  if (target == "avx2") return ConversionsOf<HWY_AVX2>(format);
#endif
#if HWY_TARGETS & HWY_SSE4
  if (target == "sse4") return ConversionsOf<HWY_SSE4>(format);
#endif
  return ConversionsOf<HWY_STATIC_TARGET>(format);
}

/// Target and format.
class VectorConversions : public testing::TestWithParam<std::tuple<size_t, int>> {};

TEST_P(VectorConversions, AgreeWithTheScalarOnes) {
  const ReduceTarget& target = ReduceTargets()[std::get<0>(GetParam())];
  if (!target.supported) GTEST_SKIP() << "this processor lacks " << target.name;
  const Conversions conversions = ConversionsByName(target.name, std::get<1>(GetParam()));
  for (const Mismatch& mismatch : {conversions.check_split(), conversions.check_join()}) {
    EXPECT_FALSE(mismatch.found) << std::hex << "from " << mismatch.from << ": scalar "
                                 << mismatch.scalar << ", vector " << mismatch.vector;
  }
}

std::string CaseName(const testing::TestParamInfo<std::tuple<size_t, int>>& parameters) {
  constexpr const char* kFormats[] = {"float16", "bfloat16", "float8e4m3", "float8e5m2"};
  return std::string(ReduceTargets()[std::get<0>(parameters.param)].name) + "_" +
         kFormats[std::get<1>(parameters.param)];
}
INSTANTIATE_TEST_SUITE_P(All, VectorConversions,
                         testing::Combine(testing::Range<size_t>(0, ReduceTargets().size()),
                                          testing::Range(0, 4)),
                         CaseName);

}  // namespace
}  // namespace harmonaize::numerics

#endif  // HWY_ONCE

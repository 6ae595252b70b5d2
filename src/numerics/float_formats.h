#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace harmonaize {

/// The shape of a binary floating-point format of 8 or 16 bits: sign, exponent, mantissa, laid out
/// as IEEE 754 does. "Magnitude" below means the bits without the sign.
struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;
  int exponent_bias;
  /// The magnitude of every value too large for the format: infinity, or the largest finite number
  /// where conversions saturate.
  uint32_t overflow;
  /// The smallest magnitude that is a NaN; all larger ones are too.
  uint32_t first_nan;
  /// A conversion to the format sets these bits in every NaN.
  uint32_t quiet_nan;

  constexpr int Bits() const { return 1 + exponent_bits + mantissa_bits; }
  constexpr uint32_t SignBit() const { return 1u << (Bits() - 1); }
  constexpr uint32_t MantissaMask() const { return (1u << mantissa_bits) - 1; }
  constexpr bool HasInfinity() const { return (first_nan & MantissaMask()) == 1; }
  constexpr uint32_t Infinity() const { return first_nan - 1; }
  /// Returns by how many bits float32's mantissa is longer than this format's.
  constexpr int MantissaShift() const { return 23 - mantissa_bits; }
  /// Returns a number which, added to a magnitude shifted by MantissaShift(), gives the float32
  /// bits of a normal number.
  constexpr uint32_t Rebias() const { return static_cast<uint32_t>(127 - exponent_bias) << 23; }
  /// Returns the float32 bits of the smallest normal number.
  constexpr uint32_t SmallestNormal() const { return Rebias() + (1u << 23); }
};

/// IEEE 754 binary16.
inline constexpr FloatFormat kFloat16Format = {5, 10, 15, 0x7C00, 0x7C01, 0x7E00};
/// The upper half of a float32.
inline constexpr FloatFormat kBfloat16Format = {8, 7, 127, 0x7F80, 0x7F81, 0x7FC0};
/// E4M3 of "FP8 Formats for Deep Learning" (Micikevicius et al., 2022), also called E4M3FN: no
/// infinity, one NaN of each sign, largest number 448. Conversions to it saturate.
inline constexpr FloatFormat kFloat8E4M3Format = {4, 3, 7, 0x7E, 0x7F, 0x7F};
/// E5M2 of the same paper, the upper half of a binary16. Conversions to it saturate at 57344,
/// infinity included, as CUDA's do by default.
inline constexpr FloatFormat kFloat8E5M2Format = {5, 2, 15, 0x7B, 0x7D, 0x7E};

/// Returns the exact value of the number in the low bits of `bits`. A NaN keeps sign and payload
/// and becomes quiet.
template <FloatFormat kFormat>
constexpr float ToFloat(uint32_t bits) {
  const uint32_t sign = (bits & kFormat.SignBit()) << (32 - kFormat.Bits());
  const uint32_t magnitude = bits & (kFormat.SignBit() - 1);
  const uint32_t shifted = magnitude << kFormat.MantissaShift();
  if (magnitude >= kFormat.first_nan) return std::bit_cast<float>(sign | shifted | 0x7FC00000u);
  if (kFormat.HasInfinity() && magnitude == kFormat.Infinity()) {
    return std::bit_cast<float>(sign | 0x7F800000u);
  }
  const bool subnormal = magnitude <= kFormat.MantissaMask();
  if (!subnormal || kFormat.Rebias() == 0) {
    return std::bit_cast<float>(sign | (shifted + kFormat.Rebias()));
  }
  // The exponent of the smallest normal number brings an implicit one, which is subtracted again.
  const float implicit_one = std::bit_cast<float>(kFormat.SmallestNormal());
  const float value = std::bit_cast<float>(shifted + kFormat.SmallestNormal()) - implicit_one;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
}

/// Returns `bits` shifted right, rounded to nearest, ties to even. Requires: 0 < shift < 32, and
/// the sum does not overflow.
constexpr uint32_t ShiftRightToNearestEven(uint32_t bits, int shift) {
  return (bits + (1u << (shift - 1)) - 1 + ((bits >> shift) & 1)) >> shift;
}

/// Returns `value` rounded to nearest, ties to even; overflow follows the format. A NaN keeps its
/// sign and as much of its payload as fits, and becomes quiet.
template <FloatFormat kFormat>
constexpr uint32_t FromFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 31) << (kFormat.Bits() - 1);
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) {
    return sign | kFormat.quiet_nan |
           ((magnitude >> kFormat.MantissaShift()) & kFormat.MantissaMask());
  }
  if (magnitude >= kFormat.SmallestNormal()) {
    const uint32_t rounded =
        ShiftRightToNearestEven(magnitude - kFormat.Rebias(), kFormat.MantissaShift());
    return sign | std::min(rounded, kFormat.overflow);
  }
  const int exponent = static_cast<int>(magnitude >> 23);
  const uint32_t significand = (magnitude & 0x007FFFFFu) | (exponent > 0 ? 1u << 23 : 0);
  const int below = static_cast<int>(kFormat.SmallestNormal() >> 23) - std::max(exponent, 1);
  // A significand of 24 bits shifted by 25 is below one half and rounds to zero, as it would with
  // any larger shift.
  return sign | ShiftRightToNearestEven(significand, std::min(kFormat.MantissaShift() + below, 25));
}

constexpr float Float16ToFloat(uint16_t bits) {
  return ToFloat<kFloat16Format>(bits);
}
constexpr float Bfloat16ToFloat(uint16_t bits) {
  return ToFloat<kBfloat16Format>(bits);
}
constexpr float Float8E4M3ToFloat(uint8_t bits) {
  return ToFloat<kFloat8E4M3Format>(bits);
}
constexpr float Float8E5M2ToFloat(uint8_t bits) {
  return ToFloat<kFloat8E5M2Format>(bits);
}

constexpr uint16_t FloatToFloat16(float value) {
  return static_cast<uint16_t>(FromFloat<kFloat16Format>(value));
}
constexpr uint16_t FloatToBfloat16(float value) {
  return static_cast<uint16_t>(FromFloat<kBfloat16Format>(value));
}
constexpr uint8_t FloatToFloat8E4M3(float value) {
  return static_cast<uint8_t>(FromFloat<kFloat8E4M3Format>(value));
}
constexpr uint8_t FloatToFloat8E5M2(float value) {
  return static_cast<uint8_t>(FromFloat<kFloat8E5M2Format>(value));
}

}  // namespace harmonaize

#include "perf/harness/data_type.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

namespace harmonaize::perf {
namespace {

constexpr std::array<TypeInfo, 12> kTypes = {{
    {ncclInt8, "int8", "char", 1, false, true, 0, 0},
    {ncclUint8, "uint8", "uchar", 1, false, false, 0, 0},
    {ncclInt32, "int32", "int", 4, false, true, 0, 0},
    {ncclUint32, "uint32", "uint", 4, false, false, 0, 0},
    {ncclInt64, "int64", "long", 8, false, true, 0, 0},
    {ncclUint64, "uint64", "ulong", 8, false, false, 0, 0},
    {ncclFloat16, "half", "float16", 2, true, true, 11, -14},
    {ncclFloat32, "float", "float32", 4, true, true, 24, -126},
    {ncclFloat64, "double", "float64", 8, true, true, 53, -1022},
    {ncclBfloat16, "bfloat16", "bf16", 2, true, true, 8, -126},
    {ncclFloat8e4m3, "f8e4m3", "float8e4m3", 1, true, true, 4, -6},
    {ncclFloat8e5m2, "f8e5m2", "float8e5m2", 1, true, true, 3, -14},
}};

int ExponentBits(const TypeInfo& type) {
  return static_cast<int>(type.size) * 8 - type.significand_bits;
}

// Encodes formats of at most 16 bits: sign, exponent with the bias that makes minimum_exponent its
// first value, and fraction.
uint16_t EncodeSmall(const TypeInfo& type, double value) {
  const int fraction_bits = type.significand_bits - 1;
  const uint16_t sign =
      std::signbit(value) ? static_cast<uint16_t>(1u << (type.size * 8 - 1)) : uint16_t{0};
  const double magnitude = std::fabs(value);
  // In units of the last place the value is an integer below 2^significand_bits. nearbyint rounds
  // it to even, and a carry out of the fraction moves into the exponent field by itself.
  const double unit = UnitInTheLastPlace(type, magnitude);
  const auto units = static_cast<uint32_t>(std::nearbyint(magnitude / unit));
  const int exponent_field =
      units == 0 ? 0 : std::ilogb(unit) + fraction_bits - type.minimum_exponent + 1;  // 1 = normal
  const uint32_t hidden = 1u << fraction_bits;
  const uint32_t bits =
      units < hidden ? units
                     : (static_cast<uint32_t>(exponent_field) << fraction_bits) + (units - hidden);
  return static_cast<uint16_t>(sign | bits);
}

double DecodeSmall(const TypeInfo& type, uint16_t bits) {
  const int fraction_bits = type.significand_bits - 1;
  const int exponent_bits = ExponentBits(type);
  const uint32_t fraction = bits & ((1u << fraction_bits) - 1);
  const uint32_t exponent =
      (static_cast<uint32_t>(bits) >> fraction_bits) & ((1u << exponent_bits) - 1);
  const double sign = (bits >> (type.size * 8 - 1)) != 0 ? -1.0 : 1.0;
  const bool top = exponent == (1u << exponent_bits) - 1;
  // e4m3 spends the top exponent on numbers too; only all ones is NaN there (Micikevicius et al.,
  // "FP8 Formats for Deep Learning", 2022).
  if (type.type == ncclFloat8e4m3) {
    if (top && fraction == 7) return std::numeric_limits<double>::quiet_NaN();
  } else if (top) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  const uint32_t hidden = exponent == 0 ? 0 : 1u << fraction_bits;
  const int scale =
      static_cast<int>(exponent == 0 ? 1 : exponent) - 1 + type.minimum_exponent - fraction_bits;
  return sign * std::ldexp(static_cast<double>(fraction + hidden), scale);
}

}  // namespace

std::span<const TypeInfo> AllTypes() {
  return kTypes;
}

const TypeInfo* FindType(std::string_view name) {
  for (const TypeInfo& type : kTypes) {
    if (type.name == name || type.alias == name) return &type;
  }
  return nullptr;
}

double UnitInTheLastPlace(const TypeInfo& type, double value) {
  const int exponent = value == 0 ? type.minimum_exponent : std::ilogb(value);
  return std::ldexp(1.0, std::max(exponent, type.minimum_exponent) - (type.significand_bits - 1));
}

void EncodeFloat(const TypeInfo& type, double value, void* out) {
  if (type.type == ncclFloat64) {
    std::memcpy(out, &value, sizeof(value));
  } else if (type.type == ncclFloat32) {
    const auto single = static_cast<float>(value);
    std::memcpy(out, &single, sizeof(single));
  } else {
    const uint16_t bits = EncodeSmall(type, value);
    if (type.size == 1) {
      *static_cast<uint8_t*>(out) = static_cast<uint8_t>(bits);
    } else {
      std::memcpy(out, &bits, sizeof(bits));
    }
  }
}

double DecodeFloat(const TypeInfo& type, const void* element) {
  if (type.type == ncclFloat64) {
    double value;
    std::memcpy(&value, element, sizeof(value));
    return value;
  }
  if (type.type == ncclFloat32) {
    float value;
    std::memcpy(&value, element, sizeof(value));
    return static_cast<double>(value);
  }
  uint16_t bits = 0;
  if (type.size == 1) {
    bits = *static_cast<const uint8_t*>(element);
  } else {
    std::memcpy(&bits, element, sizeof(bits));
  }
  return DecodeSmall(type, bits);
}

}  // namespace harmonaize::perf

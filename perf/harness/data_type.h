#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "include/nccl.h"

namespace harmonaize::perf {

/// Facts of one NCCL data type for the benchmarks. The benchmarks have conversions of their own: a
/// checker that shared them with the library under test would share its mistakes.
struct TypeInfo {
  ncclDataType_t type;
  std::string_view name;   ///< Name in nccl-tests: "float", "half", "f8e4m3", ...
  std::string_view alias;  ///< A second name that is accepted: "float32", ...
  size_t size;             ///< Bytes of one element.
  bool is_float;
  bool is_signed;
  int significand_bits;  ///< Floating point: bits of precision, the hidden one included.
  int minimum_exponent;  ///< Floating point: exponent of the smallest normal number.
};

/// Returns all of NCCL's types, in the order of their values.
std::span<const TypeInfo> AllTypes();

/// Returns NULL when no type has this name.
const TypeInfo* FindType(std::string_view name);

/// Writes `value`, rounded to nearest even, as one element of a floating-point type to `out`.
/// Requires: `value` lies inside the type's finite range.
void EncodeFloat(const TypeInfo& type, double value, void* out);

/// Returns the value of one floating-point element; NaN and infinities included.
double DecodeFloat(const TypeInfo& type, const void* element);

/// Returns the distance between neighbours of the type at `value` (Goldberg, 1991: one ulp).
double UnitInTheLastPlace(const TypeInfo& type, double value);

}  // namespace harmonaize::perf

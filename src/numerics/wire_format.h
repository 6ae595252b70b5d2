#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "src/numerics/types.h"

namespace harmonaize {

/// Formats that floats may have on the wire between hosts. Values travel between daemons: append
/// only. The formats are listed from the least lossy to the most lossy one.
enum class WireFormat : uint8_t {
  kSame = 0,  ///< The elements as they are.
  kBf16,      ///< Each element rounded to bfloat16.
  /// Groups of kWireGroupElements elements, each of which has one scale, a power of two, and one
  /// byte for each element: float8e4m3 times the scale. The scale takes the group's largest finite
  /// magnitude to 128 or more, up to 256. So no finite element becomes 448, which stands for
  /// infinity.
  kFp8,
};
inline constexpr int kWireFormatCount = 3;

/// Number of elements that share a scale. The first group begins with the first element of the
/// message, and only the last one may be shorter. Work on messages is cut at its multiples.
inline constexpr size_t kWireGroupElements = 256;
/// Bytes of a group's scale, a float32, which precedes its elements.
inline constexpr size_t kWireScaleBytes = 4;

/// Returns "same", "bf16" or "fp8".
std::string_view WireFormatName(WireFormat format);
/// Returns the format of this name, if there is one.
std::optional<WireFormat> FindWireFormat(std::string_view name);

/// Returns the format in which the values of a reduction travel where `allowed` is allowed.
/// Only sums and averages of float32 and float64 are compressed. float64 travels as bfloat16 where
/// float32 would be fp8.
constexpr WireFormat WireFormatFor(WireFormat allowed, DataType type, ReduceOperator op) {
  const bool sums =
      op == ReduceOperator::kSum || op == ReduceOperator::kAvg || op == ReduceOperator::kPreMulSum;
  if (!sums || allowed == WireFormat::kSame) return WireFormat::kSame;
  if (type == DataType::kFloat32) return allowed;
  return type == DataType::kFloat64 ? WireFormat::kBf16 : WireFormat::kSame;
}

/// Returns the bytes of a message of `elements` elements, which are also the place of element
/// number `elements` in a longer one. That place makes sense at multiples of kWireGroupElements
/// only where the format has groups.
constexpr uint64_t WireBytes(WireFormat format, DataType type, uint64_t elements) {
  switch (format) {
    case WireFormat::kSame: break;
    case WireFormat::kBf16: return 2 * elements;
    case WireFormat::kFp8: {
      const uint64_t groups = (elements + kWireGroupElements - 1) / kWireGroupElements;
      return elements + kWireScaleBytes * groups;
    }
  }
  return elements * DataTypeSize(type);
}

/// Returns the least number of elements to which work on messages of this format is cut.
constexpr uint64_t WireGranule(WireFormat format) {
  return format == WireFormat::kFp8 ? kWireGroupElements : 1;
}

/// Returns a bound of the error of a sum whose contributions are rounded to the format up to
/// `roundings` times on their way, each time as a part of a sum of up to `contributions` of them.
/// The bound is relative to the largest sum of the contributions' magnitudes among the elements of
/// a group (of one element for bf16). It holds where no magnitude exceeds float32's range and that
/// largest sum is at least 2^-100: both formats have float32's exponents. The error of float32
/// itself, which a sum has anyway, is not in it.
double WireErrorBound(WireFormat format, int roundings, int contributions);

}  // namespace harmonaize

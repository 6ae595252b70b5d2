#include "src/numerics/wire_format.h"

namespace harmonaize {
namespace {

// Largest relative error of one rounding: half a unit in the last of 8 or 4 significant bits.
constexpr double kBf16Roundoff = 0x1p-8;
constexpr double kFp8Roundoff = 0x1p-4;
// Largest error of fp8's subnormal elements, relative to their group's largest magnitude: half of
// 2^-9, where the largest magnitude is 2^7.
constexpr double kFp8Underflow = 0x1p-17;

}  // namespace

std::string_view WireFormatName(WireFormat format) {
  switch (format) {
    case WireFormat::kSame: return "same";
    case WireFormat::kBf16: return "bf16";
    case WireFormat::kFp8: return "fp8";
  }
  return "unknown";
}

std::optional<WireFormat> FindWireFormat(std::string_view name) {
  for (int i = 0; i < kWireFormatCount; ++i) {
    const auto format = static_cast<WireFormat>(i);
    if (WireFormatName(format) == name) return format;
  }
  return std::nullopt;
}

double WireErrorBound(WireFormat format, int roundings, int contributions) {
  if (format == WireFormat::kSame) return 0;
  const bool fp8 = format == WireFormat::kFp8;
  // Each of the partial sums of one level has an underflow of its own.
  const double roundoff =
      fp8 ? kFp8Roundoff + kFp8Underflow * static_cast<double>(contributions) : kBf16Roundoff;
  double grown = 1;
  for (int i = 0; i < roundings; ++i) grown *= 1 + roundoff;
  return grown - 1;
}

}  // namespace harmonaize

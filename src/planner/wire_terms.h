#pragma once

#include "src/numerics/wire_format.h"

namespace harmonaize {

/// What a planner may do to sums of floats on the wire between hosts.
struct WireTerms {
  bool bf16 = false;
  bool fp8 = false;
  /// Largest error of a result that plans may have, in the terms of WireErrorBound.
  double error_bound = 0;

  bool Allows(WireFormat format) const {
    return format == WireFormat::kSame || (format == WireFormat::kBf16 && bf16) ||
           (format == WireFormat::kFp8 && fp8);
  }
  bool AllowsAny() const { return bf16 || fp8; }

  bool operator==(const WireTerms&) const = default;
};

/// Returns the bytes of a long message as a fraction of those of its float32 elements.
constexpr double WireShareOf(WireFormat format) {
  return static_cast<double>(WireBytes(format, DataType::kFloat32, kWireGroupElements)) /
         static_cast<double>(WireBytes(WireFormat::kSame, DataType::kFloat32, kWireGroupElements));
}

}  // namespace harmonaize

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "src/numerics/types.h"
#include "src/numerics/wire_format.h"

namespace harmonaize {

/// One buffer of a ReduceWire: elements of the type, or the same elements in the wire format.
template <typename Byte>
struct WireBuffer {
  Byte* address = nullptr;
  bool encoded = false;
};

/// A sum of some inputs, written to some outputs, of which some are in a wire format.
struct WireReduceArguments {
  WireFormat format = WireFormat::kBf16;  ///< Not kSame. kFp8 goes with float32 only.
  DataType type = DataType::kFloat32;     ///< kFloat32 or kFloat64.
  /// n >= 1 buffers of `count` elements each, at any address.
  std::span<const WireBuffer<const std::byte>> inputs = {};
  /// m >= 1 buffers of `count` elements each, at any address. Each one is one of the inputs exactly
  /// and as encoded as it, or overlaps no input, and no two of them overlap.
  std::span<const WireBuffer<std::byte>> outputs = {};
  size_t count = 0;
  /// Either none, or n scalars as those of kPreMulSum (ReduceArguments).
  std::span<const uint64_t> scalars = {};
  /// Whether outputs that are not encoded get what the encoded ones stand for. If false, they get
  /// the sum as it is.
  bool rounds = true;
};

/// Decodes the inputs, adds them up in their order as Reduce does, and encodes the sum, in one pass
/// over memory. Rounding is to nearest even. NaNs stay NaNs, infinities stay, and numbers that the
/// format's exponents do not reach become infinite.
///
/// The result does not depend on the processor, on the alignment, nor on how the caller cuts a
/// buffer into calls at multiples of WireGranule; of a NaN only that it is one is promised. The
/// calling thread must have the default floating-point environment.
///
/// Never allocates, locks or fails. Thread: any.
void ReduceWire(const WireReduceArguments& arguments);

}  // namespace harmonaize

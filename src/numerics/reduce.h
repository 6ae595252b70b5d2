#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "src/numerics/types.h"

namespace harmonaize {

/// One reduction: n inputs are combined element by element, and the result is written to m outputs.
struct ReduceArguments {
  DataType type = DataType::kFloat32;
  ReduceOperator op = ReduceOperator::kSum;
  /// n >= 1 buffers of `count` elements each, at any address, aligned or not.
  std::span<const std::byte* const> inputs = {};
  /// m >= 1 buffers of `count` elements each, at any address. Each one is either one of the inputs
  /// exactly (in place) or overlaps no input, and no two of them overlap.
  std::span<std::byte* const> outputs = {};
  /// Elements of each buffer; may be 0.
  size_t count = 0;
  /// kPreMulSum only: n scalars, one for each input; the bits of one element of `type` stand in the
  /// low bytes of each.
  std::span<const uint64_t> scalars = {};
  /// kAvg only: divisor of the sum, usually the number of ranks; not 0.
  uint64_t divisor = 1;
  /// Whether to write the outputs past the caches: useful when all buffers together exceed the
  /// last-level cache and the outputs are not read at once. Ordinary stores still serve an output
  /// that is also an input (its lines are in the cache already), one whose address modulo 64
  /// differs from the first output's, and those after the 64th.
  bool non_temporal = false;
};

/// Combines the inputs in their order, ((x0 + x1) + x2) + ..., in one pass over memory.
///
/// The result does not depend on the processor (every dispatch target gives the same bits), on the
/// alignment, on how the caller cuts a buffer into calls, nor on `non_temporal`; of a NaN result
/// only that it is a NaN is promised. The calling thread must have the default floating-point
/// environment: rounding to nearest, and subnormal numbers not flushed where float32 and float64
/// need them.
///
/// - Integers wrap modulo 2^bits in sums, products and scaled sums. kAvg divides the wrapped sum,
///   read as the type is, signed or unsigned, and truncates toward zero.
/// - float16, bfloat16 and both float8 are accumulated in float32 and rounded once, at the end, to
///   nearest even. float8 saturates to the largest finite number, infinite sums included; float16
///   and bfloat16 overflow to infinity. float32 and float64 accumulate in their own type. Products
///   and sums are never fused.
/// - kAvg of floats divides the sum by the divisor (rounded to the accumulator's type) before it is
///   rounded itself.
/// - kPreMulSum multiplies each input with its scalar in the accumulator's type, then adds.
/// - kMin and kMax of floats: a NaN loses against a number, and only NaNs give NaN; of two zeros of
///   different sign the earlier input's stays.
///
/// Never allocates, locks or fails. When it returns, its non-temporal stores are ordered as
/// ordinary ones are: a release store of the calling thread publishes them. Thread: any.
void Reduce(const ReduceArguments& arguments);

/// Copies `bytes` bytes from `source` to every destination; memory is asked for the source once. A
/// destination equal to the source is skipped. One that overlaps the source, or another one, may
/// hold anything afterwards; nothing else is touched. No alignment is needed. `non_temporal` is as
/// for Reduce when there are several destinations; a single one is left to the C library's copy.
/// Never fails. Thread: any.
void CopyToMany(const std::byte* source, std::span<std::byte* const> destinations, size_t bytes,
                bool non_temporal);

}  // namespace harmonaize

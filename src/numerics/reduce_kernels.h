#pragma once

#include <cstdint>

#include "src/numerics/reduce.h"
#include "src/numerics/reduce_wire.h"
#include "src/numerics/types.h"

namespace harmonaize::numerics {

/// Carries out the reductions of one type and operator on one target. `count` may be 0.
using ReduceKernel = void (*)(const ReduceArguments&);
/// Carries out the reductions of one wire format and type on one target.
using WireReduceKernel = void (*)(const WireReduceArguments&);

// Each of these is specialised for every target in HWY_TARGETS, in the file that is named after it,
// and returns kernels only for the types that it names.

/// Returns kernels for the six integer types.
template <int64_t kTarget>
ReduceKernel IntegerKernel(DataType type, ReduceOperator op);
/// Returns kernels for float32 and float64.
template <int64_t kTarget>
ReduceKernel FloatKernel(DataType type, ReduceOperator op);
/// Returns kernels for float16, bfloat16, float8e4m3 and float8e5m2.
template <int64_t kTarget>
ReduceKernel NarrowFloatKernel(DataType type, ReduceOperator op);
/// Returns the kernel of a format that is not kSame, for float32 or float64 (wire_kernels.cc).
template <int64_t kTarget>
WireReduceKernel WireKernelOf(WireFormat format, DataType type);

}  // namespace harmonaize::numerics

#include "src/numerics/highway_config.h"

// Compiled once for every target, by including itself.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/numerics/narrow_float_kernels.cc"
#include <hwy/foreach_target.h>
// Must follow foreach_target.h.
#include <hwy/highway.h>

#include "src/numerics/reduce_kernel-inl.h"
#include "src/numerics/reduce_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace harmonaize::numerics {
namespace HWY_NAMESPACE {

ReduceKernel FindNarrowFloatKernel(DataType type, ReduceOperator op) {
  switch (type) {
    case DataType::kFloat16: return KernelOf<Float16Format>(op);
    case DataType::kBfloat16: return KernelOf<Bfloat16Format>(op);
    case DataType::kFloat8E4M3: return KernelOf<NarrowFormat<kFloat8E4M3Format>>(op);
    case DataType::kFloat8E5M2: return KernelOf<NarrowFormat<kFloat8E5M2Format>>(op);
    default: return nullptr;
  }
}

}  // namespace HWY_NAMESPACE

template <>
ReduceKernel NarrowFloatKernel<HWY_TARGET>(DataType type, ReduceOperator op) {
  return HWY_NAMESPACE::FindNarrowFloatKernel(type, op);
}

}  // namespace harmonaize::numerics
HWY_AFTER_NAMESPACE();

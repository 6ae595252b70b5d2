#include "src/numerics/highway_config.h"

// Compiled once for every target, by including itself.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/numerics/float_kernels.cc"
#include <hwy/foreach_target.h>
// Must follow foreach_target.h.
#include <hwy/highway.h>

#include "src/numerics/reduce_kernel-inl.h"
#include "src/numerics/reduce_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace harmonaize::numerics {
namespace HWY_NAMESPACE {

ReduceKernel FindFloatKernel(DataType type, ReduceOperator op) {
  switch (type) {
    case DataType::kFloat32: return KernelOf<PlainFormat<float>>(op);
    case DataType::kFloat64: return KernelOf<PlainFormat<double>>(op);
    default: return nullptr;
  }
}

}  // namespace HWY_NAMESPACE

template <>
ReduceKernel FloatKernel<HWY_TARGET>(DataType type, ReduceOperator op) {
  return HWY_NAMESPACE::FindFloatKernel(type, op);
}

}  // namespace harmonaize::numerics
HWY_AFTER_NAMESPACE();

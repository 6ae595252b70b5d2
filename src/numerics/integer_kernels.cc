#include "src/numerics/highway_config.h"

// Compiled once for every target, by including itself.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/numerics/integer_kernels.cc"
#include <hwy/foreach_target.h>
// Must follow foreach_target.h.
#include <hwy/highway.h>

#include "src/numerics/reduce_kernel-inl.h"
#include "src/numerics/reduce_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace harmonaize::numerics {
namespace HWY_NAMESPACE {

ReduceKernel FindIntegerKernel(DataType type, ReduceOperator op) {
  switch (type) {
    case DataType::kInt8: return KernelOf<PlainFormat<int8_t>, PlainFormat<uint8_t>>(op);
    case DataType::kUint8: return KernelOf<PlainFormat<uint8_t>>(op);
    case DataType::kInt32: return KernelOf<PlainFormat<int32_t>, PlainFormat<uint32_t>>(op);
    case DataType::kUint32: return KernelOf<PlainFormat<uint32_t>>(op);
    case DataType::kInt64: return KernelOf<PlainFormat<int64_t>, PlainFormat<uint64_t>>(op);
    case DataType::kUint64: return KernelOf<PlainFormat<uint64_t>>(op);
    default: return nullptr;
  }
}

}  // namespace HWY_NAMESPACE

template <>
ReduceKernel IntegerKernel<HWY_TARGET>(DataType type, ReduceOperator op) {
  return HWY_NAMESPACE::FindIntegerKernel(type, op);
}

}  // namespace harmonaize::numerics
HWY_AFTER_NAMESPACE();

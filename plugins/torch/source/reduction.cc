#include "plugins/torch/source/reduction.h"

#include "plugins/torch/source/local_reduction.h"

namespace harmonaize_torch {

Reduction::Reduction(at::ScalarType type, const c10d::ReduceOp& operation)
    : operation_(operation), native_(NativelyReduced(type, operation)) {
  CheckReducible(type, operation);
  if (operation.op_ != c10d::ReduceOp::PREMUL_SUM) return;
  const at::ScalarType of_factor = c10::isComplexType(type) ? c10::toRealValueType(type) : type;
  factor_ = at::empty({1}, at::TensorOptions().dtype(of_factor)).fill_(PreMultiplier(operation));
}

ncclResult_t Reduction::MakeOperator(ncclComm_t communicator, ncclRedOp_t* made) const {
  return Library::Get().ncclRedOpCreatePreMulSum(made, factor_.data_ptr(), native_->type,
                                                 ncclScalarHostImmediate, communicator);
}

at::Tensor Reduction::Contribution(const at::Tensor& tensor) const {
  if (!factor_.defined()) return tensor;
  const at::NoGradGuard no_grad;
  return tensor.mul(factor_);
}

void Reduction::Reduce(const at::Tensor& gathered, int ranks, const at::Tensor& result) const {
  const bool sums = operation_.op_ == c10d::ReduceOp::PREMUL_SUM;
  ReduceLocally(gathered, ranks, sums ? c10d::ReduceOp(c10d::ReduceOp::SUM) : operation_, result);
}

}  // namespace harmonaize_torch

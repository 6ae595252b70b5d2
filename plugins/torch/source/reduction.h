#pragma once

#include <optional>

#include "plugins/torch/source/data_types.h"
#include "plugins/torch/source/library.h"
#include "plugins/torch/source/torch_version.h"

namespace harmonaize_torch {

/// How one call reduces elements of one type: by NCCL, or by gathering and ReduceLocally.
class Reduction {
 public:
  /// Throws, as CheckReducible does, where no backend could.
  Reduction(at::ScalarType type, const c10d::ReduceOp& operation);

  /// Whether NCCL has the type and the operator.
  bool native() const { return native_.has_value(); }
  ncclDataType_t type() const { return native_->type; }
  /// Elements of type() that `tensor` has.
  size_t CountOf(const at::Tensor& tensor) const {
    return static_cast<size_t>(tensor.numel()) * native_->count_factor;
  }

  /// Calls `post` with the operator, which is made for this call where it has a factor. Requires:
  /// native().
  template <typename Post>
  ncclResult_t WithOperator(ncclComm_t communicator, Post&& post) const {
    ncclRedOp_t made = native_->operation;
    if (factor_.defined()) {
      const ncclResult_t result = MakeOperator(communicator, &made);
      if (result != ncclSuccess) return result;
    }
    const ncclResult_t result = post(made);
    if (factor_.defined()) {
      static_cast<void>(Library::Get().ncclRedOpDestroy(made, communicator));
    }
    return result;
  }

  /// Returns what this rank contributes where ranks gather: `tensor`, or its product with the
  /// factor.
  at::Tensor Contribution(const at::Tensor& tensor) const;

  /// Reduces what was gathered, as ReduceLocally does. Requires: not native().
  void Reduce(const at::Tensor& gathered, int ranks, const at::Tensor& result) const;

 private:
  ncclResult_t MakeOperator(ncclComm_t communicator, ncclRedOp_t* made) const;

  c10d::ReduceOp operation_;
  std::optional<NativeReduction> native_;
  at::Tensor factor_;  // of PREMUL_SUM, as one element of what is added
};

}  // namespace harmonaize_torch

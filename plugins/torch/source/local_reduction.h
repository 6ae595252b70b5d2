#pragma once

#include "plugins/torch/source/torch_version.h"

namespace harmonaize_torch {

/// Reduces `blocks`, which has the contributions of all ranks one after the other in the order of
/// ranks, into `result`: what NCCL has no type or operator for. Both are contiguous, of one type,
/// and `blocks` has `ranks` times as many elements. Integers wrap around, and an average of them is
/// rounded towards zero, as in NCCL.
/// Requires: CheckReducible has passed, and the operator is not PREMUL_SUM. Thread: any.
void ReduceLocally(const at::Tensor& blocks, int ranks, const c10d::ReduceOp& operation,
                   const at::Tensor& result);

}  // namespace harmonaize_torch

#pragma once

#include <optional>

#include "plugins/torch/source/library.h"
#include "plugins/torch/source/torch_version.h"

namespace harmonaize_torch {

/// How elements are carried that no rank computes with: as `count_factor` elements of `type` each.
struct CarriedType {
  ncclDataType_t type;
  size_t count_factor;
};

/// Returns how elements of `type` are carried: by the type itself where NCCL has it, so that ranks
/// that disagree about it are told, and else as bytes.
CarriedType TypeToCarry(at::ScalarType type);

/// A reduction as NCCL has it: `count_factor` elements of `type` for each of the tensor's.
struct NativeReduction {
  ncclDataType_t type;
  size_t count_factor;
  ncclRedOp_t operation;  ///< Not set for ReduceOp::PREMUL_SUM, which has to be made.
};

/// Returns how NCCL reduces elements of `type` by `operation`, or nothing where it has no such type
/// or operator, and ReduceLocally has to do it.
std::optional<NativeReduction> NativelyReduced(at::ScalarType type,
                                               const c10d::ReduceOp& operation);

/// Throws, in the words that torch's own backends use, where no backend could reduce elements of
/// `type` by `operation`.
void CheckReducible(at::ScalarType type, const c10d::ReduceOp& operation);

/// Returns the name of an operator as Python writes it, such as "SUM".
const char* NameOf(c10d::ReduceOp::RedOpType operation);

}  // namespace harmonaize_torch

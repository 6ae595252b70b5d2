#pragma once

#include <vector>

#include "plugins/torch/source/torch_version.h"

namespace harmonaize_torch {

/// Returns the tensor itself if its elements lie one after the other, else a copy for which they
/// do.
at::Tensor Packed(const at::Tensor& tensor);

/// A place for results: the caller's tensor itself where its elements lie one after the other, and
/// else memory from which Deliver copies into it.
class ResultPlace {
 public:
  /// With `filled`, the memory begins with what the tensor has.
  ResultPlace(const at::Tensor& tensor, bool filled);

  const at::Tensor& memory() const { return memory_; }
  void Deliver() const;

 private:
  at::Tensor tensor_;
  at::Tensor memory_;
};

/// Tensors of one size and type as one flat block, in their order: themselves where they lie one
/// behind the other, as the pieces of one buffer do, and else a block of its own.
class FlatBlock {
 public:
  /// For results. With `filled`, the block begins with what the tensors have.
  FlatBlock(const std::vector<at::Tensor>& tensors, bool filled);

  const at::Tensor& memory() const { return memory_; }
  /// Copies the block's pieces into the tensors, where it is not made of them.
  void Deliver() const;

 private:
  std::vector<at::Tensor> tensors_;
  at::Tensor memory_;
  bool own_ = false;
};

}  // namespace harmonaize_torch

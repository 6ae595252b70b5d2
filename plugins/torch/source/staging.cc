#include "plugins/torch/source/staging.h"

#include <utility>

namespace harmonaize_torch {
namespace {

/// Copies without autograd's notice: what c10d writes has no history.
void Overwrite(const at::Tensor& to, const at::Tensor& from) {
  const at::NoGradGuard no_grad;
  to.copy_(from);
}

/// Returns whether the tensor's memory has its elements as they are, one after the other.
bool IsPlain(const at::Tensor& tensor) {
  return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

bool LieInOneRow(const std::vector<at::Tensor>& tensors) {
  const at::Tensor& first = tensors.front();
  const auto bytes = static_cast<int64_t>(first.nbytes());
  auto* place = static_cast<char*>(first.data_ptr());
  for (const at::Tensor& tensor : tensors) {
    if (!IsPlain(tensor) || !tensor.is_alias_of(first) || tensor.data_ptr() != place) {
      return false;
    }
    place += bytes;
  }
  return true;
}

}  // namespace

at::Tensor Packed(const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  return tensor.resolve_conj().resolve_neg().contiguous();
}

ResultPlace::ResultPlace(const at::Tensor& tensor, bool filled) : tensor_(tensor) {
  if (IsPlain(tensor)) {
    memory_ = tensor;
  } else {
    memory_ = at::empty(tensor.sizes(), tensor.options().requires_grad(false));
    if (filled) Overwrite(memory_, tensor);
  }
}

void ResultPlace::Deliver() const {
  if (!memory_.is_same(tensor_)) Overwrite(tensor_, memory_);
}

FlatBlock::FlatBlock(const std::vector<at::Tensor>& tensors, bool filled) : tensors_(tensors) {
  const at::NoGradGuard no_grad;
  const at::Tensor& first = tensors.front();
  const int64_t count = first.numel();
  const auto all = static_cast<int64_t>(tensors.size()) * count;
  own_ = !LieInOneRow(tensors);
  if (!own_) {
    memory_ = first.detach().as_strided({all}, {1}, first.storage_offset());
    return;
  }
  memory_ = at::empty({all}, first.options().requires_grad(false));
  if (!filled) return;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor piece = memory_.narrow(0, static_cast<int64_t>(i) * count, count);
    Overwrite(piece.view(tensors[i].sizes()), tensors[i]);
  }
}

void FlatBlock::Deliver() const {
  if (!own_) return;
  const int64_t count = tensors_.front().numel();
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const at::Tensor piece = memory_.narrow(0, static_cast<int64_t>(i) * count, count);
    Overwrite(tensors_[i], piece.view(tensors_[i].sizes()));
  }
}

}  // namespace harmonaize_torch

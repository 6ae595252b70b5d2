#include "src/store/tensor_source.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace harmonaize::store {
namespace {

using checkpoint::BytesOf;
using checkpoint::Shard;

/// Bytes of a window, unless one row of the innermost dimension has more.
constexpr uint64_t kWindowBytes = 8 << 20;

}  // namespace

Result<TensorSource> TensorSource::Of(checkpoint::StoredCheckpoint* stored) {
  HZ_ASSIGN_OR_RETURN(checkpoint::ShardReader reader, checkpoint::ShardReader::Of(stored));
  TensorSource source(std::move(reader));
  for (const auto& [name, view] : source.reader_.tensors()) {
    source.tensors_.push_back(
        {.name = name,
         .type = view.type,
         .is_object = view.is_object,
         .global_shape = view.shape,
         .box = {.offset = std::vector<int64_t>(view.shape.size(), 0), .shape = view.shape}});
  }
  return source;
}

Status TensorSource::Read(size_t tensor, uint64_t at, std::span<std::byte> into) {
  while (!into.empty()) {
    const bool is_there =
        window_of_ == tensor && at >= window_at_ && at < window_at_ + window_.size();
    if (!is_there) HZ_RETURN_IF_ERROR(Fill(tensor, at));
    const uint64_t begin = at - window_at_;
    const uint64_t bytes = std::min<uint64_t>(into.size(), window_.size() - begin);
    std::memcpy(into.data(), window_.data() + begin, bytes);
    at += bytes;
    into = into.subspan(bytes);
  }
  return Status::Ok();
}

// The window is a box of one index in the leading dimensions, some in the dimension that is cut,
// and all in those behind it.
Status TensorSource::Fill(size_t tensor, uint64_t at) {
  Shard wanted = tensors_[tensor];
  const std::vector<int64_t>& shape = wanted.global_shape;
  std::vector<uint64_t> strides(shape.size(), BytesOf(wanted.type));
  for (size_t i = shape.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * static_cast<uint64_t>(shape[i]);
  }
  size_t cut = 0;
  while (cut + 1 < shape.size() && strides[cut] > kWindowBytes) ++cut;
  window_of_ = SIZE_MAX;
  window_at_ = 0;
  for (size_t i = 0; i < shape.size() && i <= cut; ++i) {
    const auto index = static_cast<int64_t>((at - window_at_) / strides[i]);
    const auto most = static_cast<int64_t>(std::max<uint64_t>(kWindowBytes / strides[i], 1));
    window_at_ += static_cast<uint64_t>(index) * strides[i];
    wanted.box.offset[i] = index;
    wanted.box.shape[i] = i < cut ? 1 : std::min(most, shape[i] - index);
  }
  window_.resize(BytesOf(wanted));
  HZ_RETURN_IF_ERROR(reader_.Read(wanted, window_.data()));
  window_of_ = tensor;
  return Status::Ok();
}

}  // namespace harmonaize::store

#include "tests/support/saved_model.h"

#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <utility>

#include "src/base/mix_bits.h"
#include "src/checkpoint/element_type.h"
#include "src/checkpoint/shard.h"
#include "tests/support/box_elements.h"

namespace harmonaize::testing {
namespace {

/// Returns the first row of a rank's share.
int64_t Begin(int64_t length, int rank, int ranks) {
  return length * rank / ranks;
}

/// Fills a box of a tensor: each element's bytes follow from the name, the step and its index in
/// the whole tensor.
void Fill(const std::string& name, uint64_t step, uint64_t element_bytes,
          const std::vector<int64_t>& whole, const checkpoint::Box& box,
          std::vector<std::byte>* data) {
  const uint64_t seed = MixBits(std::hash<std::string>{}(name) ^ step);
  const std::vector<int64_t> elements = ElementsIn(whole, box);
  data->resize(elements.size() * element_bytes);
  for (size_t i = 0; i < elements.size(); ++i) {
    const uint64_t value = MixBits(seed + static_cast<uint64_t>(elements[i]));
    std::memcpy(data->data() + i * element_bytes, &value, element_bytes);
  }
}

}  // namespace

SavedModel::SavedModel(int rank, int ranks, uint64_t step) : step_(step) {
  tensors_.reserve(5);
  const auto rows = [&](int64_t length) { return Begin(length, rank, ranks); };
  const auto rows_end = [&](int64_t length) { return Begin(length, rank + 1, ranks); };
  Add("layers.0.weight", hzFloat32, {240, 70, 10}, {rows(240), 0, 0},
      {rows_end(240) - rows(240), 70, 10});
  Add("embedding", hzBfloat16, {128, 96}, {0, rows(96)}, {128, rows_end(96) - rows(96)});
  Add("norm.bias", hzFloat64, {33}, {0}, {33});
  if (rank == 0) {
    Add("step", hzInt64, {}, {}, {});
    Add("loader", hzUint8, {57}, {0}, {57}, true);
  }
}

void SavedModel::Add(std::string name, hzElementType_t type, std::vector<int64_t> global_shape,
                     std::vector<int64_t> offset, std::vector<int64_t> shape, bool is_object) {
  tensors_.push_back(
      {std::move(name), std::move(global_shape), std::move(offset), std::move(shape), {}});
  Tensor& tensor = tensors_.back();
  Fill(tensor.name, step_, checkpoint::BytesOf(static_cast<checkpoint::ElementType>(type)),
       tensor.global_shape, {.offset = tensor.offset, .shape = tensor.shape}, &tensor.data);
  hzShard_t shard = HZ_SHARD_INITIALIZER;
  shard.name = tensor.name.c_str();
  shard.type = type;
  shard.is_object = is_object ? 1 : 0;
  shard.dimensions = static_cast<int>(tensor.global_shape.size());
  shard.global_shape = tensor.global_shape.data();
  shard.offset = tensor.offset.data();
  shard.shape = tensor.shape.data();
  shard.data = tensor.data.data();
  shards_.push_back(shard);
}

ncclResult_t SavedModel::Save(hzCheckpointer_t saver, int flags) const {
  return hzCheckpointSave(saver, step_, flags, shards_.data(), shards_.size());
}

std::string SavedModel::Compare(hzCheckpoint_t checkpoint, int rank, int ranks, uint64_t step) {
  const SavedModel expected(rank, ranks, step);
  std::vector<hzShard_t> wanted = expected.shards();
  std::vector<std::vector<std::byte>> read(wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    read[i].resize(expected.tensors_[i].data.size());
    wanted[i].data = read[i].data();
  }
  if (hzCheckpointRead(checkpoint, wanted.data(), wanted.size()) != ncclSuccess) {
    return ncclGetLastError(nullptr);
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (read[i] != expected.tensors_[i].data) {
      return fmt::format("rank {} of {} reads other values of {}", rank, ranks, wanted[i].name);
    }
  }
  return "";
}

}  // namespace harmonaize::testing

#include "src/checkpoint/box_copy.h"

#include <algorithm>

namespace harmonaize::checkpoint {
namespace {

/// Returns how many elements lie between neighbours of each dimension of a row-major box.
std::vector<uint64_t> StridesOf(const Box& box) {
  std::vector<uint64_t> strides(box.shape.size(), 1);
  for (size_t i = box.shape.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * static_cast<uint64_t>(box.shape[i]);
  }
  return strides;
}

/// Returns the number of leading dimensions along which runs are apart. A dimension belongs to the
/// run if all dimensions behind it are whole in both boxes.
size_t DimensionsApart(const Box& from, const Box& to, const Box& common) {
  size_t apart = common.shape.size();
  while (apart > 0) {
    --apart;
    const int64_t length = common.shape[apart];
    if (length != from.shape[apart] || length != to.shape[apart]) break;
  }
  return apart;
}

}  // namespace

std::optional<Box> Intersection(const Box& one, const Box& other) {
  Box common = one;
  for (size_t i = 0; i < one.shape.size(); ++i) {
    const int64_t first = std::max(one.offset[i], other.offset[i]);
    const int64_t end = std::min(one.offset[i] + one.shape[i], other.offset[i] + other.shape[i]);
    if (first >= end) return std::nullopt;
    common.offset[i] = first;
    common.shape[i] = end - first;
  }
  return common;
}

void AppendRest(Box box, const Box& hole, std::vector<Box>* rest) {
  for (size_t i = 0; i < box.shape.size(); ++i) {
    const int64_t before = hole.offset[i] - box.offset[i];
    const int64_t behind = box.shape[i] - before - hole.shape[i];
    if (before > 0) {
      rest->push_back(box);
      rest->back().shape[i] = before;
    }
    if (behind > 0) {
      rest->push_back(box);
      rest->back().offset[i] = hole.offset[i] + hole.shape[i];
      rest->back().shape[i] = behind;
    }
    box.offset[i] = hole.offset[i];
    box.shape[i] = hole.shape[i];
  }
}

Status ForEachRun(const Box& from, const Box& to, const Box& common, uint64_t element_bytes,
                  const std::function<Status(const ByteRun&)>& each) {
  const size_t dimensions = common.shape.size();
  const size_t apart = DimensionsApart(from, to, common);
  const std::vector<uint64_t> from_strides = StridesOf(from);
  const std::vector<uint64_t> to_strides = StridesOf(to);
  ByteRun run = {.bytes = element_bytes};
  uint64_t runs = 1;
  for (size_t i = 0; i < dimensions; ++i) {
    run.from += static_cast<uint64_t>(common.offset[i] - from.offset[i]) * from_strides[i];
    run.to += static_cast<uint64_t>(common.offset[i] - to.offset[i]) * to_strides[i];
    (i < apart ? runs : run.bytes) *= static_cast<uint64_t>(common.shape[i]);
  }
  run.from *= element_bytes;
  run.to *= element_bytes;
  std::vector<int64_t> at(apart, 0);
  for (uint64_t i = 0; i < runs; ++i) {
    HZ_RETURN_IF_ERROR(each(run));
    // The next run: an odometer over the leading dimensions.
    for (size_t d = apart; d-- > 0;) {
      run.from += from_strides[d] * element_bytes;
      run.to += to_strides[d] * element_bytes;
      if (++at[d] < common.shape[d]) break;
      run.from -= static_cast<uint64_t>(common.shape[d]) * from_strides[d] * element_bytes;
      run.to -= static_cast<uint64_t>(common.shape[d]) * to_strides[d] * element_bytes;
      at[d] = 0;
    }
  }
  return Status::Ok();
}

}  // namespace harmonaize::checkpoint

// What tests of checkpoints fill tensors with: values that follow from an element's place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/checkpoint/shard.h"

namespace harmonaize::testing {

/// Returns the elements of a box of a tensor in which each element is its own index.
inline std::vector<int64_t> ElementsIn(const std::vector<int64_t>& whole,
                                       const checkpoint::Box& box) {
  std::vector<int64_t> elements;
  for (uint64_t i = 0; i < checkpoint::ElementsOf(box.shape); ++i) {
    auto left = static_cast<int64_t>(i);
    int64_t index = 0;
    int64_t stride = 1;
    for (size_t d = whole.size(); d-- > 0;) {
      index += (box.offset[d] + left % box.shape[d]) * stride;
      left /= box.shape[d];
      stride *= whole[d];
    }
    elements.push_back(index);
  }
  return elements;
}

}  // namespace harmonaize::testing

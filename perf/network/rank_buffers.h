#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/memory/buffer.h"
#include "src/schedule/ir/outline.h"

namespace harmonaize::perf {

/// Buffers of one host's ranks for a sum of float32, and what they are to hold afterwards. Every
/// element of rank r's input is r + 1.
class RankBuffers {
 public:
  /// `count` elements a unit. The problem has to stay.
  RankBuffers(const Problem& problem, int host, uint64_t count);

  /// By rank; empty for those of other hosts.
  const std::vector<Buffer>& inputs() const { return inputs_; }
  const std::vector<Buffer>& outputs() const { return outputs_; }
  /// Whether this host's outputs are right.
  bool Right() const;

 private:
  std::byte* Allocate(size_t place, uint64_t elements, float value);
  float Expected(uint64_t block) const;

  const Problem& problem_;
  const uint64_t count_;
  std::vector<std::vector<float>> memory_;  // inputs and outputs by turns
  std::vector<Buffer> inputs_;
  std::vector<Buffer> outputs_;
};

}  // namespace harmonaize::perf

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/memory/memory_view.h"
#include "src/schedule/ir/outline.h"

namespace harmonaize::perf {

/// Buffers of one host's ranks for a sum of float32, and their expected content afterwards. Every
/// element of rank r's input is r + 1.
class RankBuffers {
 public:
  /// `count`: elements of a unit. The problem must outlive the buffers.
  RankBuffers(const Problem& problem, int host, uint64_t count);

  /// Return the buffers by rank; empty for ranks of other hosts.
  const std::vector<MemoryView>& inputs() const { return inputs_; }
  const std::vector<MemoryView>& outputs() const { return outputs_; }
  /// Returns whether this host's outputs are right, up to an error relative to what is expected.
  bool Right(double error_bound = 0) const;

 private:
  std::byte* Allocate(size_t place, uint64_t elements, float value);
  float Expected(uint64_t block) const;

  const Problem& problem_;
  const uint64_t count_;
  std::vector<std::vector<float>> memory_;  // inputs and outputs alternate
  std::vector<MemoryView> inputs_;
  std::vector<MemoryView> outputs_;
};

}  // namespace harmonaize::perf

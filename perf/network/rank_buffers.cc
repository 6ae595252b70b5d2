#include "perf/network/rank_buffers.h"

#include <cmath>

namespace harmonaize::perf {

RankBuffers::RankBuffers(const Problem& problem, int host, uint64_t count)
    : problem_(problem), count_(count), memory_(2 * problem.host_of_rank.size()) {
  const auto ranks = static_cast<int>(problem.host_of_rank.size());
  for (int rank = 0; rank < ranks; ++rank) {
    const auto place = static_cast<size_t>(rank);
    const BufferBlocks blocks = BlocksOf(problem.collective, ranks, rank, problem.root);
    MemoryView input;
    MemoryView output;
    if (problem.host_of_rank[place] == host) {
      input.address = Allocate(2 * place, blocks.send * count, static_cast<float>(rank + 1));
      output.address = Allocate(2 * place + 1, blocks.receive * count, -1);
    }
    inputs_.push_back(input);
    outputs_.push_back(output);
  }
}

bool RankBuffers::Right(double error_bound) const {
  for (size_t rank = 0; rank < inputs_.size(); ++rank) {
    const std::vector<float>& output = memory_[2 * rank + 1];
    for (size_t i = 0; i < output.size(); ++i) {
      const auto expected = static_cast<double>(Expected(i / count_));
      if (std::fabs(static_cast<double>(output[i]) - expected) > error_bound * expected) {
        return false;
      }
    }
  }
  return true;
}

std::byte* RankBuffers::Allocate(size_t place, uint64_t elements, float value) {
  memory_[place].assign(elements, value);
  return reinterpret_cast<std::byte*>(memory_[place].data());
}

// Returns small whole numbers, so sums in any order are exact.
float RankBuffers::Expected(uint64_t block) const {
  const uint64_t ranks = inputs_.size();
  if (Reduces(problem_.collective)) return static_cast<float>(ranks * (ranks + 1) / 2);
  if (HasRoot(problem_.collective)) return static_cast<float>(problem_.root + 1);
  return static_cast<float>(block + 1);
}

}  // namespace harmonaize::perf

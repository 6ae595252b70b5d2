#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "perf/opportunities/job.h"
#include "perf/opportunities/times.h"
#include "perf/opportunities/window.h"

namespace harmonaize::opportunities {

struct ExpertsOptions {
  size_t token_bytes = 2048;
  int tokens = 256;                  ///< Of a rank in a step.
  double compute_seconds = 0.00002;  ///< Of an expert for one token.
  double skew = 1;                   ///< 0: tokens go to all experts alike; 1: as words in a text.
  uint64_t seed = 1;
};

/// A layer of a mixture of experts, one expert a rank: each rank sends its tokens to experts, which
/// compute and send them back. Some experts are in greater demand than others, and in each step it
/// is others: all ranks know from the seed how many tokens go where.
class Experts {
 public:
  Experts(const Job& job, Window* window, const ExpertsOptions& options);

  void Run();

 private:
  void RunStep(bool last);
  void DrawTokens();
  void Exchange(const float* from, float* to, bool back);
  /// Returns the elements that `from` has for `to`.
  size_t Elements(int from, int to) const {
    return elements_[static_cast<size_t>(from * job_.ranks() + to)];
  }

  const Job& job_;
  Window* const window_;
  const ExpertsOptions options_;
  std::mt19937_64 random_;
  const size_t token_elements_;
  float* const own_;       ///< Tokens of this rank.
  float* const received_;  ///< Tokens for this rank's expert.
  std::vector<size_t> elements_;
  bool go_on_ = true;
  Times step_times_;
};

}  // namespace harmonaize::opportunities

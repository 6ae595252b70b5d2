#pragma once

#include <cstddef>
#include <cstdint>
#include <random>

#include "perf/opportunities/job.h"
#include "perf/opportunities/times.h"
#include "perf/opportunities/window.h"

namespace harmonaize::opportunities {

struct ServingOptions {
  size_t bytes = size_t{32} << 10;  ///< Of an all-reduce.
  int layers = 4;                   ///< Each has two all-reduces for a token.
  double compute_seconds = 0.0005;  ///< Before each all-reduce.
  double requests_per_second = 10;
  int tokens = 4;  ///< Of a request.
  uint64_t seed = 1;
};

/// Tensor-parallel serving of a language model: requests arrive at Poisson times and are served in
/// turn, token by token; a token takes two all-reduces for each layer, as attention and the
/// perceptron behind it do. All ranks know the times of arrival from the seed, and rest until then.
class Serving {
 public:
  Serving(const Job& job, Window* window, const ServingOptions& options);

  void Run();

 private:
  bool Serve();
  void Sum(bool last);

  const Job& job_;
  Window* const window_;
  const ServingOptions options_;
  std::mt19937_64 random_;
  const size_t count_;
  float* const data_;
  bool go_on_ = true;
  Times request_times_;
  Times token_times_;
  Times sum_times_;
};

}  // namespace harmonaize::opportunities

#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "perf/opportunities/mlp.h"

namespace harmonaize::opportunities {

/// Classification that is not trivial and has no end of samples: a random network with a hidden
/// layer labels normally distributed inputs, and a part of the labels is then drawn at random. The
/// loss of the best classifier is above zero, and known to nobody. Thread: one.
class Teacher {
 public:
  /// The same seed makes the same teacher. `noise` is the part of labels that are random.
  Teacher(uint64_t seed, size_t inputs, size_t classes, double noise);

  /// Fills in one row of inputs for each label, and the labels.
  void Draw(std::mt19937_64* random, std::span<float> samples, std::span<int> labels);

 private:
  const double noise_;
  Mlp<float> network_;
  std::vector<float> parameters_;
};

}  // namespace harmonaize::opportunities

#include "perf/opportunities/teacher.h"

#include <algorithm>

namespace harmonaize::opportunities {
namespace {

// Units of the teacher's hidden layer: enough that its classes are no linear ones.
constexpr size_t kHidden = 32;

}  // namespace

Teacher::Teacher(uint64_t seed, size_t inputs, size_t classes, double noise)
    : noise_(noise), network_({inputs, kHidden, classes}), parameters_(network_.size()) {
  network_.Initialise(seed, parameters_);
}

void Teacher::Draw(std::mt19937_64* random, std::span<float> samples, std::span<int> labels) {
  std::normal_distribution<float> normal;
  std::generate(samples.begin(), samples.end(), [&] { return normal(*random); });
  network_.Classify(parameters_, samples, labels);
  std::bernoulli_distribution noisy(noise_);
  std::uniform_int_distribution<int> any(0, static_cast<int>(network_.classes()) - 1);
  for (int& label : labels) {
    if (noisy(*random)) label = any(*random);
  }
}

}  // namespace harmonaize::opportunities

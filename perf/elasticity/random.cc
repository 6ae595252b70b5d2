#include "perf/elasticity/random.h"

#include <cmath>
#include <numbers>

namespace harmonaize::elasticity {

double Random::Uniform(double least, double most) {
  constexpr double kSteps = 9007199254740992;  // 2^53, as many as a double has between 0.5 and 1
  return least + (most - least) * (static_cast<double>(engine_() >> 11) / kSteps);
}

double Random::LogUniform(double least, double most) {
  return least * std::pow(most / least, Uniform(0, 1));
}

double Random::LogNormal(double median, double sigma) {
  // Box and Muller, A Note on the Generation of Random Normal Deviates, 1958.
  const double radius = std::sqrt(-2 * std::log(1 - Uniform(0, 1)));
  const double normal = radius * std::cos(2 * std::numbers::pi * Uniform(0, 1));
  return median * std::exp(sigma * normal);
}

size_t Random::Choice(std::span<const double> chances) {
  double left = Uniform(0, 1);
  for (size_t i = 0; i + 1 < chances.size(); ++i) {
    left -= chances[i];
    if (left < 0) return i;
  }
  return chances.size() - 1;
}

}  // namespace harmonaize::elasticity

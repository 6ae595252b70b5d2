#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>

namespace harmonaize::elasticity {

/// Random numbers that are the same for a seed wherever this is built: what the standard library's
/// distributions return is left to each of them.
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}

  /// Returns a number from `least` on, below `most`.
  double Uniform(double least, double most);
  /// Returns one whose logarithm is uniform. Requires: 0 < least < most.
  double LogUniform(double least, double most);
  /// Returns one whose logarithm has a normal distribution with this median and deviation.
  double LogNormal(double median, double sigma);
  /// Returns a place in a list of chances, whose sum is 1.
  size_t Choice(std::span<const double> chances);

 private:
  std::mt19937_64 engine_;
};

}  // namespace harmonaize::elasticity

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "perf/harness/data_type.h"
#include "perf/harness/operator.h"

namespace harmonaize::perf {

/// The data of one measurement: each rank's input, and the expected output.
///
/// Every element is a function of (seed, rank, element index), so each rank knows without
/// communication what all others sent. The inputs are chosen so that the reduced result does not
/// depend on the order of the reduction nor on the precision of the accumulator, and is therefore
/// known to the bit:
///
/// - integers: no partial sum or product leaves the type's range; min and max use all of it;
/// - floating point, sum and mulsum: integers, times one power of two an element, whose absolute
///   values add up to at most 2^significand_bits, so that every partial sum is representable;
/// - prod: powers of two, one factor 3/2, exponents whose sum stays inside the normal range;
/// - min, max: any representable values.
///
/// If a type has room for the contributions of fewer ranks than there are, the others contribute
/// the neutral element. Which ranks contribute changes from element to element.
///
/// The average is the one result that is rounded. Multiplication by 1/n before or after summing is
/// allowed (NCCL does either), each operation rounding in an accumulator of at least float32
/// (float64 for float64) and the result once more to the type:
///   |error| <= ulp_type / 2 + (n + 2) * u * sum(|x|) / n,   u = 2^-24 (2^-53 for float64)
/// by the usual bound on recursive summation (Higham, "Accuracy and Stability of Numerical
/// Algorithms", 2002, section 4.2). Integer averages truncate toward zero and are exact.
///
/// The data repeats every kPeriod elements, a prime: no chunk, slot or rank offset of an
/// implementation is a multiple of it, so data in the wrong place is detected.
///
/// Thread: one; each rank has its own pattern.
class Pattern {
 public:
  static constexpr size_t kPeriod = 16381;

  /// `error_bound`: further error that elements of a sum or an average of floats may have, relative
  /// to the largest sum of magnitudes of any element.
  Pattern(const TypeInfo& type, Operator op, int ranks, uint64_t seed, double error_bound = 0);

  /// Writes `count` elements of `rank`'s input, starting with element `first`.
  void Fill(int rank, size_t first, size_t count, void* out);

  /// Returns kPeriod elements of the input of `rank`. Valid while the pattern lives.
  const std::vector<std::byte>& Input(int rank);

  /// Returns kPeriod elements of the reduction over all ranks.
  const std::vector<std::byte>& Reduced();

  /// Returns whether one element of output is right. `expected` is an element of Input() or
  /// Reduced(), with `index` its place in the period.
  bool Accepts(const std::byte* found, const std::byte* expected, size_t index, bool reduced) const;

  const TypeInfo& type() const { return type_; }

 private:
  int64_t IntegerInput(int rank, size_t index) const;
  double FloatInput(int rank, size_t index) const;
  double FloatProductInput(int rank, size_t index) const;
  void ReduceIntegers();
  void ReduceFloats();
  /// Adds the error that a format between hosts may bring. `largest` is of the sums of magnitudes.
  void AddErrorBound(double largest);
  uint64_t Hash(uint64_t rank, size_t index) const;
  /// Returns whether `rank` contributes to element `index` when only `slots` ranks may.
  bool Contributes(int rank, size_t index, uint64_t slots) const;

  TypeInfo type_;
  Operator op_;
  int ranks_;
  uint64_t seed_;
  double error_bound_;
  std::map<int, std::vector<std::byte>> inputs_;
  std::vector<std::byte> reduced_;
  std::vector<double> tolerance_;  // kPeriod entries, or none where results are exact
};

}  // namespace harmonaize::perf

#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "src/numerics/types.h"

namespace harmonaize {

using Bytes = std::vector<std::byte>;

/// Returns `count` elements of the type: mostly numbers of moderate size, and among floats also
/// infinities, NaNs, zeros and subnormal numbers.
Bytes RandomElements(DataType type, size_t count, std::mt19937_64& random);

/// Returns the reduction that reduce.h specifies, computed one element after the other by scalar
/// code.
Bytes ReferenceReduce(DataType type, ReduceOperator op, const std::vector<Bytes>& inputs,
                      const std::vector<uint64_t>& scalars, uint64_t divisor);

/// Returns "" when `actual` holds the elements of `expected` bit by bit, any NaN standing for any
/// other; otherwise where they differ.
std::string Difference(DataType type, const Bytes& expected, const std::byte* actual);

}  // namespace harmonaize

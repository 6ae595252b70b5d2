#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "src/numerics/types.h"

namespace harmonaize {

using Bytes = std::vector<std::byte>;

/// `count` elements of the type. Numbers of moderate size for the most part; among floats also
/// infinities, NaNs, zeros and subnormal numbers.
Bytes RandomElements(DataType type, size_t count, std::mt19937_64& random);

/// The reduction as reduce.h promises it, one element after the other in plain scalar code.
Bytes ReferenceReduce(DataType type, ReduceOperator op, const std::vector<Bytes>& inputs,
                      const std::vector<uint64_t>& scalars, uint64_t divisor);

/// Empty when `actual` holds the elements of `expected` bit by bit, any NaN standing for any other;
/// otherwise says where they part.
std::string Difference(DataType type, const Bytes& expected, const std::byte* actual);

}  // namespace harmonaize

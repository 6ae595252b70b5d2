#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/collective.h"
#include "src/numerics/types.h"

namespace harmonaize::testing {

using Bytes = std::vector<std::byte>;

/// One collective, for the reference and for the code that runs it.
struct Case {
  Collective collective = Collective::kAllReduce;
  DataType type = DataType::kFloat32;
  ReduceOperator op = ReduceOperator::kSum;
  int ranks = 1;
  int root = 0;
  size_t count = 0;
};

/// Returns `elements` elements of the type, made from `seed`: small numbers, of either sign if the
/// type has one, halves among the floats, never a NaN.
Bytes MakeData(DataType type, size_t elements, uint64_t seed);

/// Returns the bits of one scalar for kPreMulSum.
uint64_t MakeScalar(DataType type, uint64_t seed);

/// Returns the expected receive buffer of every rank, computed element by element from the send
/// buffers of all ranks; empty for a rank that receives nothing. Written for clarity, and
/// independently of the code it judges: 16- and 8-bit floats accumulate in float, others in their
/// own type, in rank order.
std::vector<Bytes> Reference(const Case& collective, const std::vector<Bytes>& inputs,
                             const std::vector<uint64_t>& scalars);

}  // namespace harmonaize::testing

#pragma once

#include <array>
#include <string_view>

#include "include/nccl.h"

namespace harmonaize::perf {

/// Operators that combine the ranks' data. kNone is for collectives that only move data; kMulSum is
/// a fresh operator of ncclRedOpCreatePreMulSum.
enum class Operator { kNone = -1, kSum, kProd, kMax, kMin, kAvg, kMulSum };

/// nccl-tests' names, indexed by Operator.
inline constexpr std::array<std::string_view, 6> kOperatorNames = {"sum", "prod", "max",
                                                                   "min", "avg",  "mulsum"};

inline std::string_view OperatorName(Operator op) {
  return op == Operator::kNone ? "none" : kOperatorNames[static_cast<size_t>(op)];
}

/// Returns the factor of a rank's data under kMulSum: a small integer, exact in every type.
inline int PreMultiplier(int rank) {
  return 1 + rank % 2;
}

}  // namespace harmonaize::perf

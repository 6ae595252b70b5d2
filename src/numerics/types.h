#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace harmonaize {

/// NCCL's data types, with NCCL's values.
enum class DataType : uint8_t {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
  kFloat8E4M3 = 10,
  kFloat8E5M2 = 11,
};
inline constexpr int kDataTypeCount = 12;

/// NCCL's operators, with NCCL's values; kPreMulSum stands for every operator that
/// ncclRedOpCreatePreMulSum made.
enum class ReduceOperator : uint8_t {
  kSum = 0,
  kProd = 1,
  kMax = 2,
  kMin = 3,
  kAvg = 4,
  kPreMulSum = 5,
};
inline constexpr int kReduceOperatorCount = 6;

inline constexpr uint8_t kDataTypeSizes[kDataTypeCount] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

/// Returns the bytes of one element; 0 for an invalid type.
constexpr size_t DataTypeSize(DataType type) {
  const auto index = static_cast<size_t>(type);
  return index < kDataTypeCount ? kDataTypeSizes[index] : 0;
}
/// Returns the bits of the number one.
constexpr uint64_t OneBits(DataType type) {
  switch (type) {
    case DataType::kFloat16: return 0x3C00;
    case DataType::kBfloat16: return 0x3F80;
    case DataType::kFloat32: return 0x3F800000;
    case DataType::kFloat64: return 0x3FF0000000000000;
    case DataType::kFloat8E4M3: return 0x38;
    case DataType::kFloat8E5M2: return 0x3C;
    default: return 1;
  }
}
/// Returns "float32", "bfloat16", "float8e4m3", ...
std::string_view DataTypeName(DataType type);
/// Returns "sum", "prod", "max", "min", "avg" or "premulsum".
std::string_view ReduceOperatorName(ReduceOperator op);

}  // namespace harmonaize

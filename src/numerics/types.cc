#include "src/numerics/types.h"

#include <array>

namespace harmonaize {

std::string_view DataTypeName(DataType type) {
  static constexpr std::array<std::string_view, kDataTypeCount> kNames = {
      "int8",    "uint8",   "int32",   "uint32",   "int64",      "uint64",
      "float16", "float32", "float64", "bfloat16", "float8e4m3", "float8e5m2"};
  const auto index = static_cast<size_t>(type);
  return index < kNames.size() ? kNames[index] : "unknown";
}

std::string_view ReduceOperatorName(ReduceOperator op) {
  static constexpr std::array<std::string_view, kReduceOperatorCount> kNames = {
      "sum", "prod", "max", "min", "avg", "premulsum"};
  const auto index = static_cast<size_t>(op);
  return index < kNames.size() ? kNames[index] : "unknown";
}

}  // namespace harmonaize

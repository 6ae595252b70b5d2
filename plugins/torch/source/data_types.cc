#include "plugins/torch/source/data_types.h"

namespace harmonaize_torch {
namespace {

using Operator = c10d::ReduceOp::RedOpType;

std::optional<ncclDataType_t> TypeOfNccl(at::ScalarType type) {
  switch (type) {
    case at::kByte: return ncclUint8;
    case at::kChar: return ncclInt8;
    case at::kInt: return ncclInt32;
    case at::kLong: return ncclInt64;
    case at::kHalf: return ncclFloat16;
    case at::kFloat: return ncclFloat32;
    case at::kDouble: return ncclFloat64;
    case at::kBFloat16: return ncclBfloat16;
#if HARMONAIZE_TORCH_AT_LEAST(2, 3)
    case at::kUInt32: return ncclUint32;
    case at::kUInt64: return ncclUint64;
    case at::kFloat8_e4m3fn: return ncclFloat8e4m3;
    case at::kFloat8_e5m2: return ncclFloat8e5m2;
#endif
    default: return std::nullopt;
  }
}

/// The real type of which a complex number has two.
std::optional<ncclDataType_t> PartOfComplex(at::ScalarType type) {
  switch (type) {
    case at::kComplexHalf: return ncclFloat16;
    case at::kComplexFloat: return ncclFloat32;
    case at::kComplexDouble: return ncclFloat64;
    default: return std::nullopt;
  }
}

std::optional<ncclRedOp_t> OperatorOfNccl(Operator operation) {
  switch (operation) {
    case c10d::ReduceOp::SUM: return ncclSum;
    case c10d::ReduceOp::AVG: return ncclAvg;
    case c10d::ReduceOp::PRODUCT: return ncclProd;
    case c10d::ReduceOp::MIN: return ncclMin;
    case c10d::ReduceOp::MAX: return ncclMax;
    case c10d::ReduceOp::PREMUL_SUM: return ncclSum;
    default: return std::nullopt;
  }
}

/// Truth values are bytes 0 and 1, and stay so: what adds or multiplies them is a maximum or
/// minimum.
std::optional<ncclRedOp_t> OperatorOnTruth(Operator operation) {
  switch (operation) {
    case c10d::ReduceOp::SUM:
    case c10d::ReduceOp::MAX:
    case c10d::ReduceOp::BOR: return ncclMax;
    case c10d::ReduceOp::PRODUCT:
    case c10d::ReduceOp::MIN:
    case c10d::ReduceOp::BAND: return ncclMin;
    default: return std::nullopt;
  }
}

bool IsBitwise(Operator operation) {
  return operation == c10d::ReduceOp::BAND || operation == c10d::ReduceOp::BOR ||
         operation == c10d::ReduceOp::BXOR;
}

bool IsLinear(Operator operation) {
  return operation == c10d::ReduceOp::SUM || operation == c10d::ReduceOp::AVG ||
         operation == c10d::ReduceOp::PREMUL_SUM;
}

bool IsReducedLocally(at::ScalarType type) {
  switch (type) {
    case at::kShort:
    case at::kBool:
    case at::kComplexHalf:
    case at::kComplexFloat:
    case at::kComplexDouble:
#if HARMONAIZE_TORCH_AT_LEAST(2, 3)
    case at::kUInt16:
#endif
      return true;
    default: return TypeOfNccl(type).has_value();
  }
}

}  // namespace

CarriedType TypeToCarry(at::ScalarType type) {
  if (const auto native = TypeOfNccl(type)) return {*native, 1};
  return {ncclUint8, c10::elementSize(type)};
}

std::optional<NativeReduction> NativelyReduced(at::ScalarType type,
                                               const c10d::ReduceOp& operation) {
  if (type == at::kBool) {
    const auto on_truth = OperatorOnTruth(operation.op_);
    if (!on_truth) return std::nullopt;
    return NativeReduction{ncclUint8, 1, *on_truth};
  }
  const auto native = OperatorOfNccl(operation.op_);
  if (!native) return std::nullopt;
  if (const auto part = PartOfComplex(type)) {
    if (!IsLinear(operation.op_)) return std::nullopt;
    return NativeReduction{*part, 2, *native};
  }
  const auto native_type = TypeOfNccl(type);
  if (!native_type) return std::nullopt;
  return NativeReduction{*native_type, 1, *native};
}

void CheckReducible(at::ScalarType type, const c10d::ReduceOp& operation) {
  const Operator op = operation.op_;
  TORCH_CHECK(op != c10d::ReduceOp::UNUSED, "Unhandled ReduceOp");
  TORCH_CHECK(IsReducedLocally(type), "Invalid scalar type: ", type, " cannot be reduced");
  TORCH_CHECK(!IsBitwise(op) || c10::isIntegralType(type, /*includeBool=*/true),
              "Cannot use ReduceOp.", NameOf(op), " with non-integral dtype");
  TORCH_CHECK(!c10::isComplexType(type) || IsLinear(op) || op == c10d::ReduceOp::PRODUCT,
              "all_reduce does not support ", NameOf(op), " on complex tensors");
  TORCH_CHECK(type != at::kBool || (op != c10d::ReduceOp::AVG && op != c10d::ReduceOp::PREMUL_SUM),
              "Cannot use ReduceOp.", NameOf(op), " with Boolean inputs");
}

const char* NameOf(Operator operation) {
  switch (operation) {
    case c10d::ReduceOp::SUM: return "SUM";
    case c10d::ReduceOp::AVG: return "AVG";
    case c10d::ReduceOp::PRODUCT: return "PRODUCT";
    case c10d::ReduceOp::MIN: return "MIN";
    case c10d::ReduceOp::MAX: return "MAX";
    case c10d::ReduceOp::BAND: return "BAND";
    case c10d::ReduceOp::BOR: return "BOR";
    case c10d::ReduceOp::BXOR: return "BXOR";
    case c10d::ReduceOp::PREMUL_SUM: return "PREMUL_SUM";
    default: return "UNUSED";
  }
}

}  // namespace harmonaize_torch

#include "plugins/torch/source/local_reduction.h"

#include <c10/util/complex.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace harmonaize_torch {
namespace {

using Operator = c10d::ReduceOp::RedOpType;

/// The type in which sums and products of `Element` are formed: unsigned for integers, whose
/// overflow is then defined.
template <typename Element, bool kInteger = std::is_integral_v<Element>>
struct Wrapping {
  using Type = Element;
};
template <typename Element>
struct Wrapping<Element, true> {
  using Type = uint64_t;
};
template <>
struct Wrapping<c10::complex<c10::Half>, false> {
  using Type = c10::complex<float>;
};

/// Combines element `index` of all blocks by `combine`, a function of two elements.
template <typename Accumulator, typename Element, typename Combine>
Accumulator Fold(const Element* blocks, int64_t count, int ranks, int64_t index, Combine combine) {
  Accumulator folded = static_cast<Accumulator>(blocks[index]);
  for (int rank = 1; rank < ranks; ++rank) {
    folded = combine(folded, static_cast<Accumulator>(blocks[rank * count + index]));
  }
  return folded;
}

template <typename Element>
void ReduceOrdered(const Element* blocks, int64_t count, int ranks, bool least, Element* result) {
  for (int64_t i = 0; i < count; ++i) {
    result[i] = Fold<Element>(blocks, count, ranks, i, [least](Element a, Element b) {
      return least ? std::min(a, b) : std::max(a, b);
    });
  }
}

template <typename Element>
void ReduceBits(const Element* blocks, int64_t count, int ranks, Operator operation,
                Element* result) {
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t bits =
        Fold<uint64_t>(blocks, count, ranks, i, [operation](uint64_t a, uint64_t b) {
          if (operation == c10d::ReduceOp::BAND) return a & b;
          return operation == c10d::ReduceOp::BOR ? a | b : a ^ b;
        });
    result[i] = static_cast<Element>(bits);
  }
}

template <typename Element>
void ReduceSums(const Element* blocks, int64_t count, int ranks, Operator operation,
                Element* result) {
  using Sum = typename Wrapping<Element>::Type;
  for (int64_t i = 0; i < count; ++i) {
    const Sum sum = Fold<Sum>(blocks, count, ranks, i, [operation](Sum a, Sum b) {
      return operation == c10d::ReduceOp::PRODUCT ? a * b : a + b;
    });
    Element folded = static_cast<Element>(sum);
    if constexpr (std::is_integral_v<Element>) {
      if (operation == c10d::ReduceOp::AVG) folded = static_cast<Element>(folded / ranks);
    }
    result[i] = folded;
  }
}

template <typename Element>
void ReduceElements(const at::Tensor& blocks, int ranks, Operator operation,
                    const at::Tensor& result) {
  const auto* const from = static_cast<const Element*>(blocks.data_ptr());
  auto* const to = static_cast<Element*>(result.data_ptr());
  const int64_t count = result.numel();
  switch (operation) {
    case c10d::ReduceOp::SUM:
    case c10d::ReduceOp::AVG:
    case c10d::ReduceOp::PRODUCT: ReduceSums(from, count, ranks, operation, to); return;
    default: break;
  }
  if constexpr (std::is_integral_v<Element>) {
    switch (operation) {
      case c10d::ReduceOp::MIN:
      case c10d::ReduceOp::MAX:
        ReduceOrdered(from, count, ranks, operation == c10d::ReduceOp::MIN, to);
        return;
      case c10d::ReduceOp::BAND:
      case c10d::ReduceOp::BOR:
      case c10d::ReduceOp::BXOR: ReduceBits(from, count, ranks, operation, to); return;
      default: break;
    }
  }
  TORCH_CHECK(false, "a reduction of ", result.scalar_type(), " that no backend has");
}

}  // namespace

void ReduceLocally(const at::Tensor& blocks, int ranks, const c10d::ReduceOp& operation,
                   const at::Tensor& result) {
  const Operator op = operation.op_;
  switch (result.scalar_type()) {
    case at::kBool:  // Bits of the bytes 0 and 1.
    case at::kByte: return ReduceElements<uint8_t>(blocks, ranks, op, result);
    case at::kChar: return ReduceElements<int8_t>(blocks, ranks, op, result);
    case at::kShort: return ReduceElements<int16_t>(blocks, ranks, op, result);
    case at::kInt: return ReduceElements<int32_t>(blocks, ranks, op, result);
    case at::kLong: return ReduceElements<int64_t>(blocks, ranks, op, result);
#if HARMONAIZE_TORCH_AT_LEAST(2, 3)
    case at::kUInt16: return ReduceElements<uint16_t>(blocks, ranks, op, result);
    case at::kUInt32: return ReduceElements<uint32_t>(blocks, ranks, op, result);
    case at::kUInt64: return ReduceElements<uint64_t>(blocks, ranks, op, result);
#endif
    case at::kComplexHalf:
      return ReduceElements<c10::complex<c10::Half>>(blocks, ranks, op, result);
    case at::kComplexFloat: return ReduceElements<c10::complex<float>>(blocks, ranks, op, result);
    case at::kComplexDouble: return ReduceElements<c10::complex<double>>(blocks, ranks, op, result);
    default: TORCH_CHECK(false, "Invalid scalar type: ", result.scalar_type());
  }
}

}  // namespace harmonaize_torch

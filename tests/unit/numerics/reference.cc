#include "tests/unit/numerics/reference.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "src/numerics/float_formats.h"

namespace harmonaize {
namespace {

template <typename T>
struct Plain {
  using Stored = T;
  using Accumulator = T;
  static T Decode(T stored) { return stored; }
  static T Encode(T value) { return value; }
};

template <typename S, float (*kDecode)(S), S (*kEncode)(float)>
struct Narrow {
  using Stored = S;
  using Accumulator = float;
  static float Decode(S stored) { return kDecode(stored); }
  static S Encode(float value) { return kEncode(value); }
};

/// Calls `function` with the element description of `type`.
template <typename Function>
auto WithElement(DataType type, Function function) {
  switch (type) {
    case DataType::kInt8: return function(Plain<int8_t>());
    case DataType::kUint8: return function(Plain<uint8_t>());
    case DataType::kInt32: return function(Plain<int32_t>());
    case DataType::kUint32: return function(Plain<uint32_t>());
    case DataType::kInt64: return function(Plain<int64_t>());
    case DataType::kUint64: return function(Plain<uint64_t>());
    case DataType::kFloat32: return function(Plain<float>());
    case DataType::kFloat64: return function(Plain<double>());
    case DataType::kFloat16: return function(Narrow<uint16_t, Float16ToFloat, FloatToFloat16>());
    case DataType::kBfloat16: return function(Narrow<uint16_t, Bfloat16ToFloat, FloatToBfloat16>());
    case DataType::kFloat8E4M3:
      return function(Narrow<uint8_t, Float8E4M3ToFloat, FloatToFloat8E4M3>());
    case DataType::kFloat8E5M2: break;
  }
  return function(Narrow<uint8_t, Float8E5M2ToFloat, FloatToFloat8E5M2>());
}

template <typename T>
T Element(const std::byte* elements, size_t index) {
  T value;
  std::memcpy(&value, elements + index * sizeof(T), sizeof(T));
  return value;
}

/// Integers in unsigned 64-bit arithmetic, whose low bits are those of every narrower one.
template <typename T>
T CombineIntegers(ReduceOperator op, T a, T b) {
  const auto wide_a = static_cast<uint64_t>(a);
  const auto wide_b = static_cast<uint64_t>(b);
  switch (op) {
    case ReduceOperator::kProd: return static_cast<T>(wide_a * wide_b);
    case ReduceOperator::kMax: return a < b ? b : a;
    case ReduceOperator::kMin: return b < a ? b : a;
    default: return static_cast<T>(wide_a + wide_b);
  }
}

template <typename T>
T CombineFloats(ReduceOperator op, T a, T b) {
  switch (op) {
    case ReduceOperator::kProd: return a * b;
    case ReduceOperator::kMax: return std::isnan(a) || a < b ? b : a;
    case ReduceOperator::kMin: return std::isnan(a) || b < a ? b : a;
    default: return a + b;
  }
}

template <typename T>
T Scale(T value, T scalar) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(value) * static_cast<uint64_t>(scalar));
  } else {
    return value * scalar;
  }
}

template <typename T>
T Average(T sum, uint64_t divisor) {
  if constexpr (std::is_floating_point_v<T>) {
    return sum / static_cast<T>(divisor);
  } else if constexpr (std::is_signed_v<T>) {
    // A divisor beyond int64_t's range exceeds every sum but one, and that one no test uses.
    if (divisor > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return 0;
    return static_cast<T>(static_cast<int64_t>(sum) / static_cast<int64_t>(divisor));
  } else {
    return static_cast<T>(static_cast<uint64_t>(sum) / divisor);
  }
}

}  // namespace

Bytes RandomElements(DataType type, size_t count, std::mt19937_64& random) {
  return WithElement(type, [&](auto element) {
    using Stored = typename decltype(element)::Stored;
    using Accumulator = typename decltype(element)::Accumulator;
    Bytes bytes(count * sizeof(Stored));
    for (size_t i = 0; i < count; ++i) {
      const uint64_t bits = random();
      auto stored = std::bit_cast<std::array<Stored, 8 / sizeof(Stored)>>(bits)[0];
      // Bits at random are rarely numbers of like size, and sums of others say little.
      if (std::is_floating_point_v<Accumulator> && random() % 8 != 0) {
        const double number = static_cast<double>(static_cast<int64_t>(bits)) * 0x1p-61;
        stored = element.Encode(static_cast<Accumulator>(number));
      }
      std::memcpy(bytes.data() + i * sizeof(Stored), &stored, sizeof(Stored));
    }
    return bytes;
  });
}

Bytes ReferenceReduce(DataType type, ReduceOperator op, const std::vector<Bytes>& inputs,
                      const std::vector<uint64_t>& scalars, uint64_t divisor) {
  return WithElement(type, [&](auto element) {
    using Stored = typename decltype(element)::Stored;
    using Accumulator = typename decltype(element)::Accumulator;
    Bytes result(inputs[0].size());
    for (size_t i = 0; i < result.size() / sizeof(Stored); ++i) {
      Accumulator total = 0;
      for (size_t n = 0; n < inputs.size(); ++n) {
        Accumulator next = element.Decode(Element<Stored>(inputs[n].data(), i));
        if (op == ReduceOperator::kPreMulSum) {
          const auto* scalar = reinterpret_cast<const std::byte*>(&scalars[n]);
          next = Scale(next, static_cast<Accumulator>(element.Decode(Element<Stored>(scalar, 0))));
        }
        if (n == 0) {
          total = next;
        } else if constexpr (std::is_integral_v<Accumulator>) {
          total = CombineIntegers(op, total, next);
        } else {
          total = CombineFloats(op, total, next);
        }
      }
      if (op == ReduceOperator::kAvg) total = Average(total, divisor);
      const Stored stored = element.Encode(total);
      std::memcpy(result.data() + i * sizeof(Stored), &stored, sizeof(Stored));
    }
    return result;
  });
}

std::string Difference(DataType type, const Bytes& expected, const std::byte* actual) {
  if (expected.empty() || std::memcmp(expected.data(), actual, expected.size()) == 0) return "";
  return WithElement(type, [&](auto element) -> std::string {
    using Stored = typename decltype(element)::Stored;
    for (size_t i = 0; i < expected.size() / sizeof(Stored); ++i) {
      const auto want = Element<Stored>(expected.data(), i);
      const auto got = Element<Stored>(actual, i);
      if (std::memcmp(&want, &got, sizeof(Stored)) == 0) continue;
      const auto want_value = element.Decode(want);
      const auto got_value = element.Decode(got);
      if (want_value != want_value && got_value != got_value) continue;  // both are NaN
      return "element " + std::to_string(i) + ": expected " + std::to_string(want_value) +
             ", got " + std::to_string(got_value);
    }
    return "";
  });
}

}  // namespace harmonaize

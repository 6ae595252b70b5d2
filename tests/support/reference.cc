#include "tests/support/reference.h"

#include <cstring>
#include <type_traits>

#include "src/numerics/float_formats.h"

namespace harmonaize::testing {
namespace {

/// How one type is read, computed with and written. Accumulators of integers are unsigned, since
/// NCCL's sums wrap.
template <typename StorageT, typename AccumulatorT, auto kLoad, auto kStore>
struct TypeOf {
  using Storage = StorageT;
  using Accumulator = AccumulatorT;
  static Accumulator Load(Storage value) { return kLoad(value); }
  static Storage Store(Accumulator value) { return kStore(value); }
};

template <typename T>
using IntegerOf = TypeOf<T, T, [](T value) { return value; }, [](T value) { return value; }>;

template <typename F>
auto WithType(DataType type, F&& body) {
  using Half = TypeOf<uint16_t, float, Float16ToFloat, FloatToFloat16>;
  using Brain = TypeOf<uint16_t, float, Bfloat16ToFloat, FloatToBfloat16>;
  using E4M3 = TypeOf<uint8_t, float, Float8E4M3ToFloat, FloatToFloat8E4M3>;
  using E5M2 = TypeOf<uint8_t, float, Float8E5M2ToFloat, FloatToFloat8E5M2>;
  switch (type) {
    case DataType::kInt8: return body(IntegerOf<int8_t>{});
    case DataType::kUint8: return body(IntegerOf<uint8_t>{});
    case DataType::kInt32: return body(IntegerOf<int32_t>{});
    case DataType::kUint32: return body(IntegerOf<uint32_t>{});
    case DataType::kInt64: return body(IntegerOf<int64_t>{});
    case DataType::kUint64: return body(IntegerOf<uint64_t>{});
    case DataType::kFloat16: return body(Half{});
    case DataType::kFloat32: return body(IntegerOf<float>{});
    case DataType::kFloat64: return body(IntegerOf<double>{});
    case DataType::kBfloat16: return body(Brain{});
    case DataType::kFloat8E4M3: return body(E4M3{});
    case DataType::kFloat8E5M2: return body(E5M2{});
  }
  return body(IntegerOf<uint8_t>{});
}

// SplitMix64 (Steele, Lea, Flood, 2014).
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

template <typename T>
T SmallNumber(uint64_t random) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(static_cast<int>(random % 15) - 7) / 2;
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<T>(static_cast<int>(random % 200) - 100);
  } else {
    return static_cast<T>(random % 250);
  }
}

template <typename T>
T Wrap(T a, T b, bool multiply) {
  if constexpr (std::is_floating_point_v<T>) {
    return multiply ? a * b : a + b;
  } else {
    using U = std::make_unsigned_t<T>;
    const auto wide_a = static_cast<uint64_t>(static_cast<U>(a));
    const auto wide_b = static_cast<uint64_t>(static_cast<U>(b));
    return static_cast<T>(static_cast<U>(multiply ? wide_a * wide_b : wide_a + wide_b));
  }
}

template <typename T>
T Combine(ReduceOperator op, T a, T b) {
  switch (op) {
    case ReduceOperator::kProd: return Wrap(a, b, true);
    case ReduceOperator::kMax: return b > a ? b : a;
    case ReduceOperator::kMin: return b < a ? b : a;
    default: return Wrap(a, b, false);
  }
}

/// Element `index` of the reduction of all ranks' blocks that start at element `offset`.
template <typename Type>
typename Type::Storage ReduceOne(const Case& c, const std::vector<Bytes>& inputs,
                                 const std::vector<uint64_t>& scalars, size_t index) {
  using Storage = typename Type::Storage;
  using Accumulator = typename Type::Accumulator;
  Accumulator sum{};
  for (int rank = 0; rank < c.ranks; ++rank) {
    const auto r = static_cast<size_t>(rank);
    Storage stored;
    std::memcpy(&stored, inputs[r].data() + index * sizeof stored, sizeof stored);
    Accumulator value = Type::Load(stored);
    if (c.op == ReduceOperator::kPreMulSum) {
      Storage scalar;
      std::memcpy(&scalar, &scalars[r], sizeof scalar);
      value = Wrap(value, Type::Load(scalar), true);
    }
    sum = rank == 0 ? value : Combine(c.op, sum, value);
  }
  if (c.op == ReduceOperator::kAvg)
    sum = static_cast<Accumulator>(sum / static_cast<Accumulator>(c.ranks));
  return Type::Store(sum);
}

Bytes ReduceBlock(const Case& c, const std::vector<Bytes>& inputs,
                  const std::vector<uint64_t>& scalars, size_t first) {
  return WithType(c.type, [&](auto type) {
    using Type = decltype(type);
    Bytes result(c.count * sizeof(typename Type::Storage));
    for (size_t i = 0; i < c.count; ++i) {
      const auto value = ReduceOne<Type>(c, inputs, scalars, first + i);
      std::memcpy(result.data() + i * sizeof value, &value, sizeof value);
    }
    return result;
  });
}

void Append(Bytes* to, const Bytes& from, size_t offset, size_t bytes) {
  to->insert(to->end(), from.begin() + static_cast<ptrdiff_t>(offset),
             from.begin() + static_cast<ptrdiff_t>(offset + bytes));
}

}  // namespace

Bytes MakeData(DataType type, size_t elements, uint64_t seed) {
  return WithType(type, [&](auto tag) {
    using Type = decltype(tag);
    Bytes data(elements * sizeof(typename Type::Storage));
    for (size_t i = 0; i < elements; ++i) {
      const auto value =
          Type::Store(SmallNumber<typename Type::Accumulator>(Mix(seed * 0x10001u + i)));
      std::memcpy(data.data() + i * sizeof value, &value, sizeof value);
    }
    return data;
  });
}

uint64_t MakeScalar(DataType type, uint64_t seed) {
  uint64_t bits = 0;
  const Bytes one = MakeData(type, 1, seed + 77);
  std::memcpy(&bits, one.data(), one.size());
  return bits;
}

std::vector<Bytes> Reference(const Case& c, const std::vector<Bytes>& inputs,
                             const std::vector<uint64_t>& scalars) {
  const auto ranks = static_cast<size_t>(c.ranks);
  const auto root = static_cast<size_t>(c.root);
  const size_t block = c.count * DataTypeSize(c.type);
  std::vector<Bytes> outputs(ranks);
  for (size_t rank = 0; rank < ranks; ++rank) {
    Bytes& output = outputs[rank];
    switch (c.collective) {
      case Collective::kAllReduce: output = ReduceBlock(c, inputs, scalars, 0); break;
      case Collective::kReduce:
        if (rank == root) output = ReduceBlock(c, inputs, scalars, 0);
        break;
      case Collective::kReduceScatter:
        output = ReduceBlock(c, inputs, scalars, rank * c.count);
        break;
      case Collective::kBroadcast: output = inputs[root]; break;
      case Collective::kAllGather:
        for (const Bytes& input : inputs) Append(&output, input, 0, block);
        break;
      case Collective::kGather:
        if (rank != root) break;
        for (const Bytes& input : inputs) Append(&output, input, 0, block);
        break;
      case Collective::kScatter: Append(&output, inputs[root], rank * block, block); break;
      case Collective::kAllToAll:
        for (const Bytes& input : inputs) Append(&output, input, rank * block, block);
        break;
      // A ring: every rank sends to the next one.
      case Collective::kSend:
      case Collective::kReceive: output = inputs[(rank + ranks - 1) % ranks]; break;
    }
  }
  return outputs;
}

}  // namespace harmonaize::testing

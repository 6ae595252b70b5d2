// The reduction kernel: one loop for every type, operator, number of inputs and number of outputs.
//
// It works on tiles of a few vectors, whose accumulators stay in registers while the inputs are
// visited in order, and are stored to every output from there. Pointers and loop control cost time
// once for each tile and input. Elements that do not fill a vector, at either end of a buffer, are
// copied through a vector in memory and take the same instructions, so the ends of a buffer round
// as its middle does.

#if defined(HARMONAIZE_REDUCE_KERNEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HARMONAIZE_REDUCE_KERNEL_INL_H_
#undef HARMONAIZE_REDUCE_KERNEL_INL_H_
#else
#define HARMONAIZE_REDUCE_KERNEL_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "src/numerics/element_formats-inl.h"
#include "src/numerics/reduce.h"
#include "src/numerics/reduce_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace harmonaize::numerics {
namespace HWY_NAMESPACE {

// -------------------------------------------------------------------------------------- operators

/// Highway 1.0.3 cannot multiply bytes, so the even and the odd ones are multiplied as 16-bit
/// lanes.
template <class D>
HWY_INLINE hn::Vec<D> Multiply(D d, hn::Vec<D> a, hn::Vec<D> b) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (sizeof(hn::TFromD<D>) == 1) {
    const hn::Repartition<uint16_t, D> d16;
    const auto wide_a = hn::BitCast(d16, a);
    const auto wide_b = hn::BitCast(d16, b);
    const auto even = hn::And(hn::Mul(wide_a, wide_b), hn::Set(d16, 0x00FF));
    const auto odd = hn::Mul(hn::ShiftRight<8>(wide_a), hn::ShiftRight<8>(wide_b));
    return hn::BitCast(d, hn::Or(even, hn::ShiftLeft<8>(odd)));
  } else  // NOLINT(readability/braces): the branch ends behind the #endif
#endif
  {
    (void)d;
    return hn::Mul(a, b);
  }
}

/// Returns `next` where `beats` is true, or where `best` is no number. Written out, because
/// processors' own minimum and maximum differ in what they do with NaNs and zeros.
template <class Mask, class Vector>
HWY_INLINE Vector Select(Mask beats, Vector best, Vector next) {
  if constexpr (hwy::IsFloat<hn::TFromV<Vector>>()) {
    return hn::IfThenElse(hn::Or(beats, hn::IsNaN(best)), next, best);
  } else {
    return hn::IfThenElse(beats, next, best);
  }
}

template <ReduceOperator kOp, class D>
HWY_INLINE hn::Vec<D> Combine(D d, hn::Vec<D> accumulator, hn::Vec<D> next) {
  if constexpr (kOp == ReduceOperator::kProd) {
    return Multiply(d, accumulator, next);
  } else if constexpr (kOp == ReduceOperator::kMax) {
    return Select(hn::Gt(next, accumulator), accumulator, next);
  } else if constexpr (kOp == ReduceOperator::kMin) {
    return Select(hn::Lt(next, accumulator), accumulator, next);
  } else {
    return hn::Add(accumulator, next);
  }
}

/// Divides each integer by the divisor, toward zero. The quotients of integers up to 32 bits are
/// exact in a float type with at least half as many bits again: a quotient that is no integer is
/// further from the next one than the float's rounding error.
template <typename T>
HWY_INLINE void DivideLanes(T* lanes, size_t count, uint64_t divisor) {
  if constexpr (sizeof(T) < 8) {
    using Float = std::conditional_t<sizeof(T) == 4, double, float>;
    const Float float_divisor = static_cast<Float>(divisor);
    for (size_t i = 0; i < count; ++i) {
      lanes[i] = static_cast<T>(static_cast<Float>(lanes[i]) / float_divisor);
    }
  } else {
    for (size_t i = 0; i < count; ++i) {
      const auto bits = static_cast<uint64_t>(lanes[i]);
      const bool negative = std::is_signed_v<T> && (bits >> 63) != 0;
      const uint64_t quotient = (negative ? 0 - bits : bits) / divisor;
      lanes[i] = static_cast<T>(negative ? 0 - quotient : quotient);
    }
  }
}

template <class D>
HWY_INLINE hn::Vec<D> Divide(D d, hn::Vec<D> sum, uint64_t divisor) {
  using T = hn::TFromD<D>;
  if constexpr (hwy::IsFloat<T>()) {
    return hn::Div(sum, hn::Set(d, static_cast<T>(divisor)));
  } else {
    HWY_ALIGN T lanes[hn::MaxLanes(d)];
    hn::Store(sum, d, lanes);
    DivideLanes(lanes, hn::MaxLanes(d), divisor);
    return hn::Load(d, lanes);
  }
}

// ------------------------------------------------------------------------------- parts of a vector

/// AVX-512 masks single bytes and never faults on the others; elsewhere a part of a vector goes
/// through memory, which costs more than a whole one.
inline constexpr bool kMasksBytes = HWY_TARGET <= HWY_AVX3;

/// Returns the first `bytes` bytes of a vector, at most all of it, and zeros after them.
template <class D>
HWY_INLINE hn::Vec<D> LoadPartial(D d, const std::byte* from, size_t bytes) {
#if HWY_TARGET <= HWY_AVX3
  const hn::ScalableTag<uint8_t> d8;
  return hn::BitCast(
      d, hn::MaskedLoad(hn::FirstN(d8, bytes), d8, reinterpret_cast<const uint8_t*>(from)));
#else
  HWY_ALIGN hn::TFromD<D> padded[hn::MaxLanes(d)] = {};
  std::memcpy(padded, from, bytes);
  return hn::Load(d, padded);
#endif
}

template <class D>
HWY_INLINE void StorePartial(D d, hn::Vec<D> vector, std::byte* to, size_t bytes) {
#if HWY_TARGET <= HWY_AVX3
  (void)d;
  const hn::ScalableTag<uint8_t> d8;
  hn::BlendedStore(hn::BitCast(d8, vector), hn::FirstN(d8, bytes), d8,
                   reinterpret_cast<uint8_t*>(to));
#else
  HWY_ALIGN hn::TFromD<D> padded[hn::MaxLanes(d)];
  hn::Store(vector, d, padded);
  std::memcpy(to, padded, bytes);
#endif
}

// ------------------------------------------------------------------------------------------ kernel

/// Most inputs that are read at once. The tiles of more would not share the first-level cache, and
/// the prefetchers would lose track. More inputs are taken in groups, over blocks whose
/// accumulators wait in memory between the groups.
inline constexpr size_t kMostInputsAtOnce = 16;
/// Number of inputs in such a group.
inline constexpr size_t kInputsPerGroup = 8;
/// Bytes of each input that are visited in turn: one page, the most that one address translation
/// serves.
inline constexpr size_t kBlockBytes = 4096;
inline constexpr size_t kCacheLineBytes = 64;
/// Outputs with fewer bytes are not aligned to cache lines first.
inline constexpr size_t kLeastBytesToAlign = 4096;
/// Bytes between a load and the line that is prefetched with it, where the buffers exceed the
/// caches. The general loop has too many instructions for the processor to see that far by itself.
inline constexpr size_t kPrefetchBytes = 2048;

template <class Format, ReduceOperator kOp>
class Kernel {
 public:
  static void Run(const ReduceArguments& arguments) {
    const size_t bytes = arguments.count * Format::kElementBytes;
    const size_t inputs = arguments.inputs.size();
    if (bytes < kLeastBytesToAlign && inputs <= kMostInputsAtOnce && !arguments.non_temporal) {
      return RunSmall(arguments, bytes);
    }
    const bool in_groups = inputs > kMostInputsAtOnce;
    const size_t group = in_groups ? kInputsPerGroup : inputs;
    const size_t head = HeadBytes(arguments.outputs[0], bytes);
    const uint64_t streams = arguments.non_temporal ? StreamedOutputs(arguments, head) : 0;
    alignas(kCacheLineBytes) Lane accumulators[kBlockBytes / Format::kElementBytes];
    for (size_t begin = 0, end = 0; begin < bytes; begin = end) {
      end = begin < head ? head : bytes;
      if (in_groups && end - begin > kBlockBytes) end = begin + kBlockBytes;
      for (size_t first = 0; first < inputs; first += group) {
        const size_t last = inputs - first > group ? first + group : inputs;
        Pass pass{first, last, begin, accumulators, begin < head ? 0 : streams, {}};
        SetScalars(arguments, pass);
        Visit(arguments, pass, end);
      }
    }
    if (streams != 0) hwy::FlushStream();
  }

 private:
  /// Runs a small reduction in one pass, without alignment, which pays off only for larger ones.
  static void RunSmall(const ReduceArguments& arguments, size_t bytes) {
    Pass pass;
    pass.first = 0;
    pass.last = arguments.inputs.size();
    pass.block = 0;
    pass.accumulators = nullptr;  // all inputs in one pass
    pass.streams = 0;
    SetScalars(arguments, pass);
    Visit(arguments, pass, bytes);
  }

  using Tag = typename Format::Tag;
  using Vector = typename Format::Vector;
  using Lane = hn::TFromD<Tag>;
  using MemoryTag = typename Format::MemoryTag;
  using MemoryVector = typename Format::MemoryVector;
  using MemoryLane = hn::TFromD<MemoryTag>;
  static constexpr size_t kParts = Format::kParts;
  static constexpr size_t kLanes = hn::MaxLanes(Tag());
  static constexpr size_t kVectorBytes = kLanes * sizeof(Lane);
  /// Vectors of a tile. At most half of sixteen registers are for accumulators, and no more than
  /// 256 bytes: non-temporal stores to several outputs are markedly slower in longer runs. Narrow
  /// floats have enough to do in fewer vectors.
  static constexpr size_t kTileVectors =
      kParts == 1 ? HWY_MIN(8, HWY_MAX(1, 256 / kVectorBytes)) : 4 / kParts;
  static_assert(kVectorBytes == kLanes * kParts * Format::kElementBytes);

  /// The inputs from `first` to `last` on one block that begins at byte `block`.
  struct Pass {
    size_t first;
    size_t last;
    size_t block;
    Lane* accumulators;
    /// Bit i: output i is written past the caches.
    uint64_t streams;
    /// kPreMulSum: scalars of input `first` and the next ones.
    Lane scalars[kOp == ReduceOperator::kPreMulSum ? kMostInputsAtOnce : 1];
  };

  /// Returns the bytes up to the first cache line boundary of the output; 0 where its elements
  /// never meet one, or where a few stores across a boundary cost less than the detour.
  static HWY_INLINE size_t HeadBytes(const std::byte* output, size_t bytes) {
    const size_t head = (0 - reinterpret_cast<uintptr_t>(output)) % kCacheLineBytes;
    return head % Format::kElementBytes == 0 && bytes >= kLeastBytesToAlign ? head : 0;
  }

  /// Returns which of the first 64 outputs a non-temporal store may and should write: those aligned
  /// from `head` on, and not one of the inputs, whose lines have just been brought into the cache.
  static uint64_t StreamedOutputs(const ReduceArguments& arguments, size_t head) {
    uint64_t streams = 0;
    for (size_t i = 0; i < arguments.outputs.size() && i < 64; ++i) {
      const std::byte* const output = arguments.outputs[i];
      bool streamed = reinterpret_cast<uintptr_t>(output + head) % kVectorBytes == 0;
      for (const std::byte* const input : arguments.inputs) streamed = streamed && input != output;
      if (streamed) streams |= uint64_t{1} << i;
    }
    return streams;
  }

  static HWY_INLINE void SetScalars(const ReduceArguments& arguments, Pass& pass) {
    if constexpr (kOp == ReduceOperator::kPreMulSum) {
      for (size_t i = pass.first; i < pass.last; ++i) {
        pass.scalars[i - pass.first] = hn::GetLane(Format::Broadcast(arguments.scalars[i]));
      }
    }
  }

  static void Visit(const ReduceArguments& arguments, const Pass& pass, size_t end) {
    size_t begin = pass.block;
    for (; end - begin >= kTileVectors * kVectorBytes; begin += kTileVectors * kVectorBytes) {
      Tile<kTileVectors, false>(arguments, pass, begin, 0);
    }
    if constexpr (kMasksBytes) {
      for (; begin < end; begin += kVectorBytes) {
        Tile<1, true>(arguments, pass, begin, HWY_MIN(end - begin, kVectorBytes));
      }
    } else {
      for (; end - begin >= kVectorBytes; begin += kVectorBytes) {
        Tile<1, false>(arguments, pass, begin, 0);
      }
      if (begin < end) Tile<1, true>(arguments, pass, begin, end - begin);
    }
  }

  /// Reduces kVectors full vectors at byte `begin`, or, when kPartial, the first `bytes` bytes of
  /// one.
  template <size_t kVectors, bool kPartial>
  static HWY_INLINE void Tile(const ReduceArguments& arguments, const Pass& pass, size_t begin,
                              size_t bytes) {
    const Tag d;
    Vector accumulators[kVectors * kParts];
    // Index of this tile's accumulators in memory between the groups, if there are several.
    const size_t kept = (begin - pass.block) / Format::kElementBytes;
    size_t input = pass.first;
    if (input == 0) {
      Load<kVectors, kPartial>(arguments, pass, input++, begin, bytes, accumulators);
    } else {
      HWY_UNROLL(8)
      for (size_t i = 0; i < kVectors * kParts; ++i) {
        accumulators[i] = hn::Load(d, pass.accumulators + kept + i * kLanes);
      }
    }
    for (; input < pass.last; ++input) {
      Vector next[kVectors * kParts];
      Load<kVectors, kPartial>(arguments, pass, input, begin, bytes, next);
      HWY_UNROLL(8)
      for (size_t i = 0; i < kVectors * kParts; ++i) {
        accumulators[i] = Combine<kOp>(d, accumulators[i], next[i]);
      }
    }
    if (input < arguments.inputs.size()) {
      HWY_UNROLL(8)
      for (size_t i = 0; i < kVectors * kParts; ++i) {
        hn::Store(accumulators[i], d, pass.accumulators + kept + i * kLanes);
      }
      return;
    }
    if constexpr (kOp == ReduceOperator::kAvg) {
      HWY_UNROLL(8)
      for (size_t i = 0; i < kVectors * kParts; ++i) {
        accumulators[i] = Divide(d, accumulators[i], arguments.divisor);
      }
    }
    MemoryVector result[kVectors];
    HWY_UNROLL(8)
    for (size_t i = 0; i < kVectors; ++i) result[i] = Format::Join(accumulators + i * kParts);
    uint64_t streams = pass.streams;
    for (std::byte* const output : arguments.outputs) {
      Store<kVectors, kPartial>(result, output + begin, bytes, (streams & 1) != 0);
      streams >>= 1;
    }
  }

  template <size_t kVectors, bool kPartial>
  static HWY_INLINE void Load(const ReduceArguments& arguments, const Pass& pass, size_t input,
                              size_t begin, size_t bytes, Vector* to) {
    const std::byte* const from = arguments.inputs[input] + begin;
    if (kVectors == kTileVectors && !kPartial && pass.streams != 0) {
      // A prefetch never faults, even past the end.
      for (size_t line = 0; line < kVectors * kVectorBytes; line += kCacheLineBytes) {
        __builtin_prefetch(from + kPrefetchBytes + line);
      }
    }
    HWY_UNROLL(8)
    for (size_t i = 0; i < kVectors; ++i) {
      const auto vector = kPartial ? LoadPartial(MemoryTag(), from, bytes)
                                   : hn::LoadU(MemoryTag(), Lanes(from + i * kVectorBytes));
      Format::Split(vector, to + i * kParts);
    }
    if constexpr (kOp == ReduceOperator::kPreMulSum) {
      const Vector scalar = hn::Set(Tag(), pass.scalars[input - pass.first]);
      HWY_UNROLL(8)
      for (size_t i = 0; i < kVectors * kParts; ++i) to[i] = Multiply(Tag(), to[i], scalar);
    }
  }

  template <size_t kVectors, bool kPartial>
  static HWY_INLINE void Store(const MemoryVector* vectors, std::byte* to, size_t bytes,
                               bool streamed) {
    const MemoryTag d;
    if constexpr (kPartial) {
      StorePartial(d, vectors[0], to, bytes);
    } else if (streamed) {
      HWY_UNROLL(8)
      for (size_t i = 0; i < kVectors; ++i) hn::Stream(vectors[i], d, Lanes(to + i * kVectorBytes));
    } else {
      HWY_UNROLL(8)
      for (size_t i = 0; i < kVectors; ++i) hn::StoreU(vectors[i], d, Lanes(to + i * kVectorBytes));
    }
  }

  static HWY_INLINE const MemoryLane* Lanes(const std::byte* bytes) {
    return reinterpret_cast<const MemoryLane*>(bytes);
  }
  static HWY_INLINE MemoryLane* Lanes(std::byte* bytes) {
    return reinterpret_cast<MemoryLane*>(bytes);
  }
};

/// Returns kernels for operators that signed and unsigned integers share; null for the others.
template <class Format>
ReduceKernel WrappingKernel(ReduceOperator op) {
  switch (op) {
    case ReduceOperator::kSum: return &Kernel<Format, ReduceOperator::kSum>::Run;
    case ReduceOperator::kProd: return &Kernel<Format, ReduceOperator::kProd>::Run;
    case ReduceOperator::kPreMulSum: return &Kernel<Format, ReduceOperator::kPreMulSum>::Run;
    default: return nullptr;
  }
}

/// Returns kernels for operators that tell negative numbers from large ones; null for the others.
template <class Format>
ReduceKernel OrderedKernel(ReduceOperator op) {
  switch (op) {
    case ReduceOperator::kMax: return &Kernel<Format, ReduceOperator::kMax>::Run;
    case ReduceOperator::kMin: return &Kernel<Format, ReduceOperator::kMin>::Run;
    case ReduceOperator::kAvg: return &Kernel<Format, ReduceOperator::kAvg>::Run;
    default: return nullptr;
  }
}

template <class Format, class WrappingFormat = Format>
ReduceKernel KernelOf(ReduceOperator op) {
  const ReduceKernel wrapping = WrappingKernel<WrappingFormat>(op);
  return wrapping != nullptr ? wrapping : OrderedKernel<Format>(op);
}

}  // namespace HWY_NAMESPACE
}  // namespace harmonaize::numerics
HWY_AFTER_NAMESPACE();

#endif

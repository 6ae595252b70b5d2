// Conversions of the elements of each data type into accumulators and back. A format splits one
// full vector, as it is in memory, into kParts vectors of accumulator lanes, and joins them again.
// Which lane an element gets into does not matter, because reductions go element by element, as
// long as Split and Join agree. So narrow floats are taken apart by shifts within 32-bit lanes
// instead of by shuffles.

#if defined(HARMONAIZE_ELEMENT_FORMATS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HARMONAIZE_ELEMENT_FORMATS_INL_H_
#undef HARMONAIZE_ELEMENT_FORMATS_INL_H_
#else
#define HARMONAIZE_ELEMENT_FORMATS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "src/numerics/float_formats.h"
#include "src/numerics/narrow_floats-inl.h"

HWY_BEFORE_NAMESPACE();
namespace harmonaize::numerics {
namespace HWY_NAMESPACE {

/// Formats of types that accumulate in themselves.
template <typename T>
struct PlainFormat {
  using MemoryTag = hn::ScalableTag<T>;
  using MemoryVector = hn::Vec<MemoryTag>;
  using Tag = MemoryTag;
  using Vector = MemoryVector;
  static constexpr size_t kElementBytes = sizeof(T);
  static constexpr size_t kParts = 1;

  static HWY_INLINE void Split(MemoryVector vector, Vector* parts) { parts[0] = vector; }
  static HWY_INLINE MemoryVector Join(const Vector* parts) { return parts[0]; }
  /// `bits` holds an element in its low bytes.
  static HWY_INLINE Vector Broadcast(uint64_t bits) {
    T value;
    std::memcpy(&value, &bits, sizeof(value));  // the low bytes: our hosts are little-endian
    return hn::Set(Tag(), value);
  }
};

/// Common part of the narrow floats: 32-bit words in memory, float32 accumulators.
template <FloatFormat kFormat>
struct WordFormat {
  using MemoryTag = BitsTag;
  using MemoryVector = BitsVector;
  using Tag = FloatTag;
  using Vector = FloatVector;
  static constexpr size_t kElementBytes = kFormat.Bits() / 8;
  static constexpr size_t kParts = sizeof(float) / kElementBytes;
};

struct Bfloat16Format : WordFormat<kBfloat16Format> {
  static HWY_INLINE BitsVector UpperHalves() { return hn::Set(BitsTag(), 0xFFFF0000u); }
  static HWY_INLINE void Split(BitsVector words, Vector* parts) {
    parts[0] = hn::BitCast(Tag(), hn::ShiftLeft<16>(words));
    parts[1] = hn::BitCast(Tag(), hn::And(words, UpperHalves()));
  }
  static HWY_INLINE BitsVector Join(const Vector* parts) {
    return hn::Or(hn::ShiftRight<16>(DemoteToUpperBfloat16(parts[0])),
                  hn::And(DemoteToUpperBfloat16(parts[1]), UpperHalves()));
  }
  static HWY_INLINE Vector Broadcast(uint64_t bits) {
    return hn::BitCast(Tag(), hn::Set(BitsTag(), static_cast<uint32_t>(bits) << 16));
  }
};

/// Format of float16 and float8.
template <FloatFormat kFormat>
struct NarrowFormat : WordFormat<kFormat> {
  using Vector = FloatVector;
  static constexpr size_t kParts = WordFormat<kFormat>::kParts;
  static constexpr uint32_t kElementMask = 2 * kFormat.SignBit() - 1;

  static HWY_INLINE void Split(BitsVector words, Vector* parts) {
    const BitsVector mask = hn::Set(BitsTag(), kElementMask);
    parts[0] = Promote<kFormat>(hn::And(words, mask));
    if constexpr (kParts == 2) {
      parts[1] = Promote<kFormat>(hn::ShiftRight<16>(words));
    } else {
      parts[1] = Promote<kFormat>(hn::And(hn::ShiftRight<8>(words), mask));
      parts[2] = Promote<kFormat>(hn::And(hn::ShiftRight<16>(words), mask));
      parts[3] = Promote<kFormat>(hn::ShiftRight<24>(words));
    }
  }
  static HWY_INLINE BitsVector Join(const Vector* parts) {
    const BitsVector first = Demote<kFormat>(parts[0]);
    const BitsVector second = Demote<kFormat>(parts[1]);
    if constexpr (kParts == 2) {
      return hn::Or(first, hn::ShiftLeft<16>(second));
    } else {
      const BitsVector third = Demote<kFormat>(parts[2]);
      const BitsVector fourth = Demote<kFormat>(parts[3]);
      return hn::Or(hn::Or(first, hn::ShiftLeft<8>(second)),
                    hn::Or(hn::ShiftLeft<16>(third), hn::ShiftLeft<24>(fourth)));
    }
  }
  static HWY_INLINE Vector Broadcast(uint64_t bits) {
    return Promote<kFormat>(hn::Set(BitsTag(), static_cast<uint32_t>(bits) & kElementMask));
  }
};

#if HWY_TARGET <= HWY_AVX2  // AVX2 and better: the F16C instructions

/// Converts the two halves of a vector by the processor's own instructions, which agree with our
/// conversions in every bit and obey no flush-to-zero mode.
struct Float16Format : NarrowFormat<kFloat16Format> {
  using HalfTag = hn::Rebind<hwy::float16_t, Tag>;
  using HalfBitsTag = hn::Rebind<uint16_t, Tag>;
  using AllBitsTag = hn::Repartition<uint16_t, Tag>;

  static HWY_INLINE void Split(BitsVector words, Vector* parts) {
    const auto bits = hn::BitCast(AllBitsTag(), words);
    parts[0] = hn::PromoteTo(Tag(), hn::BitCast(HalfTag(), hn::LowerHalf(HalfBitsTag(), bits)));
    parts[1] = hn::PromoteTo(Tag(), hn::BitCast(HalfTag(), hn::UpperHalf(HalfBitsTag(), bits)));
  }
  static HWY_INLINE BitsVector Join(const Vector* parts) {
    const auto lower = hn::BitCast(HalfBitsTag(), hn::DemoteTo(HalfTag(), parts[0]));
    const auto upper = hn::BitCast(HalfBitsTag(), hn::DemoteTo(HalfTag(), parts[1]));
    return hn::BitCast(BitsTag(), hn::Combine(AllBitsTag(), upper, lower));
  }
};

#else
using Float16Format = NarrowFormat<kFloat16Format>;
#endif

}  // namespace HWY_NAMESPACE
}  // namespace harmonaize::numerics
HWY_AFTER_NAMESPACE();

#endif

// Vector conversions between the narrow float formats and float32. Every target computes the same
// bits as ToFloat and FromFloat of float_formats.h do, with the same operations on 32-bit lanes, so
// that a result never depends on the processor. No step has a subnormal float32 as operand or
// result where the narrow format has none, so that flush-to-zero modes of a tenant's thread do no
// harm.

#if defined(HARMONAIZE_NARROW_FLOATS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HARMONAIZE_NARROW_FLOATS_INL_H_
#undef HARMONAIZE_NARROW_FLOATS_INL_H_
#else
#define HARMONAIZE_NARROW_FLOATS_INL_H_
#endif

#include <hwy/highway.h>

#include "src/numerics/float_formats.h"

HWY_BEFORE_NAMESPACE();
namespace harmonaize::numerics {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using BitsTag = hn::ScalableTag<uint32_t>;
using SignedBitsTag = hn::ScalableTag<int32_t>;
using FloatVector = hn::Vec<FloatTag>;
using BitsVector = hn::Vec<BitsTag>;
using SignedBitsVector = hn::Vec<SignedBitsTag>;

HWY_INLINE SignedBitsVector SetBits(uint32_t bits) {
  return hn::Set(SignedBitsTag(), static_cast<int32_t>(bits));
}

/// Promotes float16 or float8: each lane of `bits` holds one number in its low bits, and zeros
/// above.
template <FloatFormat kFormat>
HWY_INLINE FloatVector Promote(BitsVector bits) {
  static_assert(kFormat.Rebias() != 0);
  constexpr int kShift = kFormat.MantissaShift();
  const FloatTag df;
  const BitsTag du;
  const SignedBitsTag di;
  const auto sign =
      hn::ShiftLeft<32 - kFormat.Bits()>(hn::And(bits, hn::Set(du, kFormat.SignBit())));
  const auto magnitude =
      hn::BitCast(di, hn::ShiftLeft<kShift>(hn::And(bits, hn::Set(du, kFormat.SignBit() - 1))));
  const auto normal = hn::Add(magnitude, SetBits(kFormat.Rebias()));
  // A subnormal number gets the exponent of the smallest normal one and with it an implicit one,
  // which the subtraction removes.
  const auto smallest_normal = SetBits(kFormat.SmallestNormal());
  const auto subnormal =
      hn::BitCast(di, hn::Sub(hn::BitCast(df, hn::Add(magnitude, smallest_normal)),
                              hn::BitCast(df, smallest_normal)));
  auto number = hn::IfThenElse(hn::Lt(magnitude, SetBits(1u << 23)), subnormal, normal);
  if constexpr (kFormat.HasInfinity()) {
    const auto is_infinite = hn::Eq(magnitude, SetBits(kFormat.Infinity() << kShift));
    number = hn::IfThenElse(is_infinite, SetBits(0x7F800000u), number);
  }
  const auto nan = hn::Or(magnitude, SetBits(0x7FC00000u));
  const auto is_number = hn::Lt(magnitude, SetBits(kFormat.first_nan << kShift));
  const auto value = hn::IfThenElse(is_number, number, nan);
  return hn::BitCast(df, hn::Or(hn::BitCast(du, value), sign));
}

/// Demotes to float16 or float8: each lane gets its number in the low bits, and zeros above.
template <FloatFormat kFormat>
HWY_INLINE BitsVector Demote(FloatVector value) {
  static_assert(kFormat.Rebias() != 0);
  constexpr int kShift = kFormat.MantissaShift();
  const FloatTag df;
  const BitsTag du;
  const SignedBitsTag di;
  const auto magnitude = hn::And(hn::BitCast(di, value), SetBits(0x7FFFFFFFu));
  const auto lowest_bit = hn::And(hn::ShiftRight<kShift>(magnitude), SetBits(1));
  const auto bias = SetBits((1u << (kShift - 1)) - 1 - kFormat.Rebias());
  const auto rounded = hn::ShiftRight<kShift>(hn::Add(hn::Add(magnitude, bias), lowest_bit));
  const auto normal = hn::Min(rounded, SetBits(kFormat.overflow));
  // The value is added to a power of two whose last place is the format's smallest subnormal
  // number. The processor rounds the sum, whose low bits then count these places.
  const auto aligner = SetBits(kFormat.SmallestNormal() + (static_cast<uint32_t>(kShift) << 23));
  const auto sum = hn::Add(hn::BitCast(df, magnitude), hn::BitCast(df, aligner));
  const auto subnormal = hn::Sub(hn::BitCast(di, sum), aligner);
  const auto number =
      hn::IfThenElse(hn::Lt(magnitude, SetBits(kFormat.SmallestNormal())), subnormal, normal);
  const auto payload = hn::And(hn::ShiftRight<kShift>(magnitude), SetBits(kFormat.MantissaMask()));
  const auto nan = hn::Or(payload, SetBits(kFormat.quiet_nan));
  const auto result = hn::IfThenElse(hn::Gt(magnitude, SetBits(0x7F800000u)), nan, number);
  const auto sign = hn::ShiftLeft<kFormat.Bits() - 1>(hn::ShiftRight<31>(hn::BitCast(du, value)));
  return hn::Or(hn::BitCast(du, result), sign);
}

/// Demotes to bfloat16: each lane gets its number in the upper half; the lower half is undefined.
/// bfloat16 has float32's exponent, so rounding is an addition to all of the bits. Highway's own
/// conversion truncates.
HWY_INLINE BitsVector DemoteToUpperBfloat16(FloatVector value) {
  const BitsTag du;
  const auto bits = hn::BitCast(du, value);
  const auto lowest_bit = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const auto rounded = hn::Add(hn::Add(bits, hn::Set(du, 0x7FFF)), lowest_bit);
  const auto nan = hn::Or(bits, hn::Set(du, 0x00400000));
  return hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(value)), nan, rounded);
}

}  // namespace HWY_NAMESPACE
}  // namespace harmonaize::numerics
HWY_AFTER_NAMESPACE();

#endif

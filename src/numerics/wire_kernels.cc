// Sums over buffers of which some are in a wire format. The kernel works on tiles of one group of
// the format. A tile stays in the first-level cache while the inputs are added to it, and while it
// is encoded from there. The last, shorter tile of a buffer is copied into one of full length, so
// that it takes the same instructions.

#include "src/numerics/highway_config.h"

// Compiled once for every target, by including itself.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/numerics/wire_kernels.cc"
#include <hwy/foreach_target.h>
// Must follow foreach_target.h.
#include <hwy/highway.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "src/numerics/narrow_floats-inl.h"
#include "src/numerics/reduce_kernels.h"
#include "src/numerics/reduce_wire.h"

HWY_BEFORE_NAMESPACE();
namespace harmonaize::numerics {
namespace HWY_NAMESPACE {

using WireHalfTag = hn::Rebind<uint16_t, FloatTag>;
using WireByteTag = hn::Rebind<uint8_t, FloatTag>;

inline constexpr size_t kTileElements = kWireGroupElements;
static_assert(kTileElements % hn::MaxLanes(FloatTag()) == 0);

HWY_INLINE FloatVector LoadFloats(const float* from) {
  return hn::LoadU(FloatTag(), from);
}

/// bfloat16, one vector of float32 at a time.
struct WireBf16 {
  static constexpr WireFormat kFormat = WireFormat::kBf16;
  static constexpr size_t kTileBytes = 2 * kTileElements;

  class Decoder {
   public:
    explicit HWY_INLINE Decoder(const std::byte* tile) : tile_(tile) {}
    /// Returns elements `i` and the following ones.
    HWY_INLINE FloatVector At(size_t i) const {
      const auto* const codes = reinterpret_cast<const uint16_t*>(tile_ + 2 * i);
      const auto bits = hn::PromoteTo(BitsTag(), hn::LoadU(WireHalfTag(), codes));
      return hn::BitCast(FloatTag(), hn::ShiftLeft<16>(bits));
    }

   private:
    const std::byte* tile_;
  };

  class Encoder {
   public:
    /// Prepares to encode this tile.
    HWY_INLINE Encoder(const float* /*values*/, std::byte* tile) : tile_(tile) {}
    HWY_INLINE void Put(size_t i, FloatVector value) const {
      const auto codes =
          hn::BitCast(SignedBitsTag(), hn::ShiftRight<16>(DemoteToUpperBfloat16(value)));
      hn::StoreU(hn::DemoteTo(WireHalfTag(), codes), WireHalfTag(),
                 reinterpret_cast<uint16_t*>(tile_ + 2 * i));
    }

   private:
    std::byte* tile_;
  };
};

/// float8e4m3 with a scale for the tile.
struct WireFp8 {
  static constexpr WireFormat kFormat = WireFormat::kFp8;
  static constexpr size_t kTileBytes = kTileElements + kWireScaleBytes;
  /// The code of 448, float8e4m3's largest number, which stands for infinity.
  static constexpr uint32_t kInfinity = kFloat8E4M3Format.overflow;

  class Decoder {
   public:
    explicit HWY_INLINE Decoder(const std::byte* tile) : codes_(tile + kWireScaleBytes) {
      std::memcpy(&scale_, tile, sizeof(scale_));
    }
    HWY_INLINE FloatVector At(size_t i) const {
      const FloatTag d;
      const BitsTag du;
      const auto* const codes = reinterpret_cast<const uint8_t*>(codes_ + i);
      const auto bits = hn::PromoteTo(du, hn::LoadU(WireByteTag(), codes));
      const auto number = hn::Mul(Promote<kFloat8E4M3Format>(bits), hn::Set(d, scale_));
      const auto sign = hn::ShiftLeft<24>(hn::And(bits, hn::Set(du, 0x80)));
      const auto infinity = hn::BitCast(d, hn::Or(sign, hn::Set(du, 0x7F800000u)));
      const auto is_infinite = hn::Eq(hn::And(bits, hn::Set(du, 0x7F)), hn::Set(du, kInfinity));
      return hn::IfThenElse(hn::RebindMask(d, is_infinite), infinity, number);
    }

   private:
    const std::byte* codes_;
    float scale_;
  };

  class Encoder {
   public:
    HWY_INLINE Encoder(const float* values, std::byte* tile) : codes_(tile + kWireScaleBytes) {
      const uint32_t exponent = ExponentOf(LargestFinite(values));
      // The scale is 2^(exponent - 7), in float32's biased exponents, which begin at 127.
      const uint32_t scale = (exponent - 7) << 23;
      inverse_ = std::bit_cast<float>((261 - exponent) << 23);
      std::memcpy(tile, &scale, sizeof(scale));
    }
    HWY_INLINE void Put(size_t i, FloatVector value) const {
      const auto scaled = hn::Mul(value, hn::Set(FloatTag(), inverse_));
      const auto codes = hn::BitCast(SignedBitsTag(), Demote<kFloat8E4M3Format>(scaled));
      hn::StoreU(hn::DemoteTo(WireByteTag(), codes), WireByteTag(),
                 reinterpret_cast<uint8_t*>(codes_ + i));
    }

   private:
    /// Returns the bits of the largest magnitude that is finite; 0 if there is none.
    static HWY_INLINE uint32_t LargestFinite(const float* values) {
      const SignedBitsTag di;
      auto largest = hn::Zero(di);
      for (size_t i = 0; i < kTileElements; i += hn::Lanes(di)) {
        const auto bits = hn::And(hn::BitCast(di, LoadFloats(values + i)), SetBits(0x7FFFFFFFu));
        const auto is_finite = hn::Lt(bits, SetBits(0x7F800000u));
        largest = hn::Max(largest, hn::IfThenElseZero(is_finite, bits));
      }
      return static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(di, largest)));
    }
    /// Returns the biased exponent of a magnitude once it is rounded to the format's four bits, but
    /// one for which the scale and its inverse are normal numbers.
    static HWY_INLINE uint32_t ExponentOf(uint32_t bits) {
      const uint32_t exponent = (bits + 0x7FFFF + ((bits >> 20) & 1)) >> 23;
      return exponent < 8 ? 8 : exponent > 254 ? 254 : exponent;
    }

    std::byte* codes_;
    float inverse_;
  };
};

/// Returns the value rounded to float32, except that a number near the middle between two bfloat16
/// keeps the side of it that it is on. So rounding twice gives what rounding once would.
HWY_INLINE float FloatBesideTies(double value) {
  const auto nearest = static_cast<float>(value);
  const double magnitude = std::fabs(value);
  const double rounded = std::fabs(static_cast<double>(nearest));
  auto bits = std::bit_cast<uint32_t>(nearest);
  const uint32_t step = (rounded < magnitude ? 1u : 0u) - (rounded > magnitude ? 1u : 0u);
  if ((bits & 0xFFFF) == 0x8000) bits += step;
  return std::bit_cast<float>(bits);
}

template <typename T, class Format>
class WireKernel {
 public:
  static void Run(const WireReduceArguments& arguments) {
    for (size_t begin = 0; begin < arguments.count; begin += kTileElements) {
      const size_t left = arguments.count - begin;
      if (left >= kTileElements) {
        RunTile<true>(arguments, begin, kTileElements);
      } else {
        RunTile<false>(arguments, begin, left);
      }
    }
  }

 private:
  static uint64_t PlaceOf(bool encoded, size_t element) {
    return encoded ? WireBytes(Format::kFormat, DataType::kFloat32, element) : element * sizeof(T);
  }

  template <bool kWhole>
  static void RunTile(const WireReduceArguments& arguments, size_t begin, size_t elements) {
    if constexpr (kWhole && std::is_same_v<T, float>) {
      if (OnlyDecodes(arguments)) {
        return Decode(arguments.inputs[0].address + PlaceOf(true, begin),
                      reinterpret_cast<float*>(arguments.outputs[0].address) + begin);
      }
    }
    alignas(64) T sum[kTileElements];
    for (size_t i = 0; i < arguments.inputs.size(); ++i) {
      const WireBuffer<const std::byte>& input = arguments.inputs[i];
      const std::byte* from = input.address + PlaceOf(input.encoded, begin);
      alignas(64) std::byte padded[kTileElements * sizeof(T)];
      if constexpr (!kWhole) {
        std::memset(padded, 0, sizeof(padded));
        std::memcpy(padded, from, PlaceOf(input.encoded, elements));
        from = padded;
      }
      T scalar = 1;
      if (!arguments.scalars.empty()) std::memcpy(&scalar, &arguments.scalars[i], sizeof(scalar));
      const bool scales = !arguments.scalars.empty();
      if (input.encoded) {
        AddEncoded(from, i == 0, sum);  // no contribution, so nothing to scale
      } else if (scales) {
        AddNative<true>(from, scalar, i == 0, sum);
      } else {
        AddNative<false>(from, scalar, i == 0, sum);
      }
    }
    WriteTile<kWhole>(arguments, begin, elements, sum);
  }

  /// Returns whether a message goes to one output as it is.
  static bool OnlyDecodes(const WireReduceArguments& arguments) {
    return arguments.inputs.size() == 1 && arguments.inputs[0].encoded &&
           arguments.outputs.size() == 1 && !arguments.outputs[0].encoded && !arguments.rounds;
  }

  static HWY_INLINE void Decode(const std::byte* from, float* to) {
    const FloatTag d;
    const typename Format::Decoder decoder(from);
    for (size_t i = 0; i < kTileElements; i += hn::Lanes(d)) hn::StoreU(decoder.At(i), d, to + i);
  }

  template <bool kScales>
  static HWY_INLINE void AddNative(const std::byte* from, T scalar, bool first, T* sum) {
    const hn::ScalableTag<T> d;
    const auto factor = hn::Set(d, scalar);
    const auto* const values = reinterpret_cast<const T*>(from);
    for (size_t i = 0; i < kTileElements; i += hn::Lanes(d)) {
      auto value = hn::LoadU(d, values + i);
      if constexpr (kScales) value = hn::Mul(value, factor);
      hn::Store(first ? value : hn::Add(hn::Load(d, sum + i), value), d, sum + i);
    }
  }

  static HWY_INLINE void AddEncoded(const std::byte* from, bool first, T* sum) {
    if constexpr (std::is_same_v<T, float>) {
      const FloatTag d;
      const typename Format::Decoder decoder(from);
      for (size_t i = 0; i < kTileElements; i += hn::Lanes(d)) {
        const auto value = decoder.At(i);
        hn::Store(first ? value : hn::Add(hn::Load(d, sum + i), value), d, sum + i);
      }
    } else {
      alignas(64) float values[kTileElements];
      Decode(from, values);
      for (size_t i = 0; i < kTileElements; ++i) {
        sum[i] = first ? static_cast<T>(values[i]) : sum[i] + static_cast<T>(values[i]);
      }
    }
  }

  template <bool kWhole>
  static void WriteTile(const WireReduceArguments& arguments, size_t begin, size_t elements,
                        T* sum) {
    std::byte* code = nullptr;
    bool native = false;
    for (const WireBuffer<std::byte>& output : arguments.outputs) {
      native = native || !output.encoded;
      if (output.encoded) code = output.address + PlaceOf(true, begin);
    }
    alignas(64) std::byte own[Format::kTileBytes];
    const bool encodes = code != nullptr || arguments.rounds;
    if (code == nullptr || !kWhole) code = own;
    if (encodes) Encode(sum, code, native && arguments.rounds);
    for (const WireBuffer<std::byte>& output : arguments.outputs) {
      std::byte* const to = output.address + PlaceOf(output.encoded, begin);
      const void* const from = output.encoded ? static_cast<const void*>(code) : sum;
      if (to != from) std::memcpy(to, from, PlaceOf(output.encoded, elements));
    }
  }

  /// Encodes the sum and, if `rounds`, replaces it with what the code stands for.
  static HWY_INLINE void Encode(T* sum, std::byte* code, bool rounds) {
    const FloatTag d;
    if constexpr (std::is_same_v<T, float>) {
      const typename Format::Encoder encoder(sum, code);
      for (size_t i = 0; i < kTileElements; i += hn::Lanes(d)) {
        encoder.Put(i, hn::Load(d, sum + i));
      }
    } else {
      alignas(64) float values[kTileElements];
      for (size_t i = 0; i < kTileElements; ++i) values[i] = FloatBesideTies(sum[i]);
      const typename Format::Encoder encoder(values, code);
      for (size_t i = 0; i < kTileElements; i += hn::Lanes(d)) {
        encoder.Put(i, hn::Load(d, values + i));
      }
    }
    if (rounds) AddEncoded(code, true, sum);
  }
};

WireReduceKernel FindWireKernel(WireFormat format, DataType type) {
  if (type == DataType::kFloat64) return &WireKernel<double, WireBf16>::Run;
  if (format == WireFormat::kFp8) return &WireKernel<float, WireFp8>::Run;
  return &WireKernel<float, WireBf16>::Run;
}

}  // namespace HWY_NAMESPACE

template <>
WireReduceKernel WireKernelOf<HWY_TARGET>(WireFormat format, DataType type) {
  return HWY_NAMESPACE::FindWireKernel(format, type);
}

}  // namespace harmonaize::numerics
HWY_AFTER_NAMESPACE();

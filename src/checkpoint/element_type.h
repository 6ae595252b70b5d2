#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace harmonaize::checkpoint {

/// Type of a shard's elements. The numbers are part of the public interface (hzElementType_t) and
/// of what lies in memory and in files: none is ever used for another type.
enum class ElementType : uint8_t {
  kBool = 0,
  kU8 = 1,
  kI8 = 2,
  kU16 = 3,
  kI16 = 4,
  kU32 = 5,
  kI32 = 6,
  kU64 = 7,
  kI64 = 8,
  kF16 = 9,
  kBf16 = 10,
  kF32 = 11,
  kF64 = 12,
  kF8E4M3 = 13,
  kF8E5M2 = 14,
  kC64 = 15,  ///< Two float32, the real part first.
};
inline constexpr int kElementTypeCount = 16;

/// Returns the bytes of an element; 0 for a value that is no type.
uint64_t BytesOf(ElementType type);
/// Returns the name that safetensors uses, such as "BF16"; "" for a value that is no type.
std::string_view NameOf(ElementType type);
/// Returns the type of this name; nullopt if there is none.
std::optional<ElementType> ElementTypeOf(std::string_view name);

}  // namespace harmonaize::checkpoint

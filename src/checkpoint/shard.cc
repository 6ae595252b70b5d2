#include "src/checkpoint/shard.h"

#include <fmt/format.h>

namespace harmonaize::checkpoint {
namespace {

/// Most bytes of a tensor: sums of a few of them do not overflow 64 bits.
constexpr uint64_t kMostTensorBytes = uint64_t{1} << 60;

/// Returns the length of the UTF-8 sequence that begins at `at`; 0: there is none. Overlong forms,
/// surrogates and numbers beyond U+10FFFF are none.
size_t SequenceAt(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const auto continues = [&](size_t i) { return at + i < text.size() && (byte(i) & 0xc0) == 0x80; };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return continues(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    if (!continues(1) || !continues(2)) return 0;
    if (first == 0xe0 && byte(1) < 0xa0) return 0;
    if (first == 0xed && byte(1) > 0x9f) return 0;
    return 3;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    if (!continues(1) || !continues(2) || !continues(3)) return 0;
    if (first == 0xf0 && byte(1) < 0x90) return 0;
    if (first == 0xf4 && byte(1) > 0x8f) return 0;
    return 4;
  }
  return 0;
}

/// Returns whether a tensor of this shape and type has few enough bytes to be reckoned with.
bool HasSoundShape(const std::vector<int64_t>& shape, ElementType type) {
  // Dimensions of 0 do not hide the size of the others.
  uint64_t bytes = BytesOf(type);
  for (const int64_t length : shape) {
    if (length < 0) return false;
    const auto factor = static_cast<uint64_t>(length == 0 ? 1 : length);
    if (bytes > kMostTensorBytes / factor) return false;
    bytes *= factor;
  }
  return true;
}

}  // namespace

Status CheckName(std::string_view name) {
  if (name.empty()) return InvalidArgument("a name is empty");
  if (name.size() > kMostNameBytes) {
    return InvalidArgument("a name has {} bytes, more than {}", name.size(), kMostNameBytes);
  }
  for (size_t at = 0; at < name.size();) {
    const size_t length = SequenceAt(name, at);
    if (length == 0) return InvalidArgument("a name is not UTF-8, at byte {}", at);
    const auto first = static_cast<unsigned char>(name[at]);
    if (first < 0x20 || first == 0x7f) {
      return InvalidArgument("a name has a control character, at byte {}", at);
    }
    at += length;
  }
  if (name.find('/') != std::string_view::npos || name.find("..") != std::string_view::npos) {
    return InvalidArgument("the name '{}' has a '/' or a '..', which no name may have", name);
  }
  return Status::Ok();
}

Status CheckShard(const Shard& shard) {
  HZ_RETURN_IF_ERROR(CheckName(shard.name));
  if (BytesOf(shard.type) == 0) {
    return InvalidArgument("'{}' has the type {}, which does not exist", shard.name,
                           static_cast<int>(shard.type));
  }
  const size_t dimensions = shard.global_shape.size();
  if (dimensions > kMostDimensions) {
    return InvalidArgument("'{}' has {} dimensions, more than {}", shard.name, dimensions,
                           kMostDimensions);
  }
  if (shard.box.offset.size() != dimensions || shard.box.shape.size() != dimensions) {
    return InvalidArgument("'{}' has {} dimensions, its shard {} and {}", shard.name, dimensions,
                           shard.box.offset.size(), shard.box.shape.size());
  }
  if (!HasSoundShape(shard.global_shape, shard.type)) {
    return InvalidArgument("'{}' has a negative length, or too many elements", shard.name);
  }
  for (size_t i = 0; i < dimensions; ++i) {
    const int64_t offset = shard.box.offset[i];
    const int64_t length = shard.box.shape[i];
    const int64_t whole = shard.global_shape[i];
    if (offset < 0 || length < 0 || offset > whole || length > whole - offset) {
      return InvalidArgument(
          "a shard of '{}' reaches from {} over {} elements in dimension {}, which has {}",
          shard.name, offset, length, i, whole);
    }
  }
  const bool is_bytes =
      shard.type == ElementType::kU8 && dimensions == 1 && shard.box.shape == shard.global_shape;
  if (shard.is_object && !is_bytes) {
    return InvalidArgument("the object '{}' is not one whole row of U8", shard.name);
  }
  return Status::Ok();
}

uint64_t ElementsOf(const std::vector<int64_t>& shape) {
  uint64_t elements = 1;
  for (const int64_t length : shape) elements *= static_cast<uint64_t>(length);
  return elements;
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

uint64_t BytesOf(const Shard& shard) {
  return ElementsOf(shard.box.shape) * BytesOf(shard.type);
}

}  // namespace harmonaize::checkpoint

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "src/checkpoint/element_type.h"

namespace harmonaize::checkpoint {

/// Most bytes of a shard's name.
inline constexpr size_t kMostNameBytes = 1024;
/// Most dimensions of a tensor. No framework has more.
inline constexpr size_t kMostDimensions = 64;

/// A box in the elements of a tensor: where it begins and how far it reaches, by dimension. Without
/// dimensions it is the one element of a scalar.
struct Box {
  std::vector<int64_t> offset = {};
  std::vector<int64_t> shape = {};

  bool operator==(const Box&) const = default;
};

/// What a rank has of a tensor: a box of it, contiguous, row-major. An object (bytes that only the
/// program understands) is a tensor of U8 that one shard holds whole.
struct Shard {
  std::string name = {};
  ElementType type = ElementType::kF32;
  bool is_object = false;
  std::vector<int64_t> global_shape = {};
  Box box = {};

  bool operator==(const Shard&) const = default;
};

/// Returns whether a name is one that a shard, a job or a checkpoint may have: UTF-8 of 1 to
/// kMostNameBytes bytes without '/', "..", NUL and other control characters, since names may become
/// parts of paths. Errors: kInvalidArgument, with what is wrong with it.
Status CheckName(std::string_view name);

/// Checks a shard: its name, its type, that the box lies in the tensor, and that no product
/// overflows. Errors: kInvalidArgument that names the shard.
Status CheckShard(const Shard& shard);

/// Returns the number of elements of a shape. Requires: CheckShard was ok.
uint64_t ElementsOf(const std::vector<int64_t>& shape);
/// Returns a shape or an offset for people: "[128, 64]".
std::string ShapeText(const std::vector<int64_t>& shape);
/// Returns the bytes of the shard's own elements. Requires: CheckShard was ok.
uint64_t BytesOf(const Shard& shard);

}  // namespace harmonaize::checkpoint

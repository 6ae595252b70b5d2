#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "src/checkpoint/shard.h"
#include "src/checkpoint/shard_source.h"

namespace harmonaize::checkpoint {

/// What is known of a tensor from all of its shards.
struct TensorView {
  ElementType type = ElementType::kF32;
  bool is_object = false;
  std::vector<int64_t> shape = {};

  bool operator==(const TensorView&) const = default;
};

/// Reads boxes of tensors, whatever boxes they were saved in. Thread: one.
class ShardReader {
 public:
  /// Requires: `source` outlives this object. Errors: kInvalidArgument if shards of one name
  /// disagree about type or shape.
  static Result<ShardReader> Of(ShardSource* source);

  /// The tensors by name.
  const std::map<std::string, TensorView, std::less<>>& tensors() const { return tensors_; }

  /// Reads a box into `into`, contiguous, row-major. Errors: kInvalidArgument if there is no such
  /// tensor, it has another type or shape, or no shard has some of the elements; those of the
  /// source.
  Status Read(const Shard& wanted, std::byte* into);

 private:
  explicit ShardReader(ShardSource* source) : source_(source) {}

  Status ReadFrom(size_t shard, const Box& common, const Box& wanted, std::byte* into);

  ShardSource* source_;
  std::map<std::string, TensorView, std::less<>> tensors_;
  std::map<std::string, std::vector<size_t>, std::less<>> shards_of_;
};

}  // namespace harmonaize::checkpoint

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/base/status.h"
#include "src/checkpoint/shard.h"

namespace harmonaize::checkpoint {

/// Something from which shards of one checkpoint can be read: images in memory, a store on disk, a
/// peer's memory.
class ShardSource {
 public:
  virtual ~ShardSource() = default;

  /// The shards that can be read, each of which has passed CheckShard. Several may hold the same
  /// elements: those that stand first are read first.
  virtual const std::vector<Shard>& shards() const = 0;

  /// Reads bytes of the shard with this index in shards(), from `at` on. Requires: they lie within
  /// BytesOf(shard). Errors: what is read cannot be had, or is damaged.
  virtual Status Read(size_t shard, uint64_t at, std::span<std::byte> into) = 0;

  /// Returns whether what was read since the last call is of this checkpoint. Errors: it may be of
  /// another one, which has taken its place meanwhile.
  virtual Status Confirm() { return Status::Ok(); }
};

}  // namespace harmonaize::checkpoint

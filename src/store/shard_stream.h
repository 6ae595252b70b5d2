#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "src/base/status.h"
#include "src/store/object_layout.h"

namespace harmonaize::store {

/// Reads bytes of the shard with this number from `at` on. Errors are the caller's.
using ReadShard = std::function<Status(size_t shard, uint64_t at, std::span<std::byte> into)>;
/// Takes the next bytes of a file.
using TakeBytes = std::function<Status(std::span<const std::byte> bytes)>;

/// What is known of a shard's bytes after they were read once.
struct ShardSums {
  uint64_t checksum = 0;  ///< XXH3.
  uint32_t crc32 = 0;     ///< 0 if it is not wanted.
};

/// Moves bytes of shards and files, through one buffer of a fixed size. Thread: one.
class ShardStream {
 public:
  /// Bytes that are moved at once: enough for a disk, and little beside what a rank uses.
  static constexpr size_t kBufferBytes = 2 << 20;

  /// `go_on` is asked before each piece. What it returns ends the work, unless it is ok.
  explicit ShardStream(std::function<Status()> go_on);

  /// Reads a shard once. Errors: those of `read` and go_on.
  Result<ShardSums> Sum(const ReadShard& read, size_t shard, uint64_t bytes, bool with_crc32);

  /// Hands a file over, piece by piece. `sums` are those of the layout's shards. Errors: those of
  /// `read`, `take` and go_on; kInvalidUsage if a shard is not what it was when it was summed.
  Status Run(const ObjectLayout& layout, std::span<const ShardSums> sums, const ReadShard& read,
             const TakeBytes& take);

 private:
  Status RunShard(const Piece& piece, uint64_t expected, const ReadShard& read,
                  const TakeBytes& take);

  const std::function<Status()> go_on_;
  std::vector<std::byte> buffer_;
};

}  // namespace harmonaize::store

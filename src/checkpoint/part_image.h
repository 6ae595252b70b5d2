#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/checkpoint/shard.h"

namespace harmonaize::checkpoint {

// A *part* is what one rank has saved of a checkpoint. Its *image* is the part as one range of
// bytes, in shared memory or on its way between hosts:
//
//     PartHeader | table of shards | zeros | data of shard 0 | ... | data of shard n-1
//
// Data of a page or more begins at a page, so that it can be written and compared by pages; less
// begins at a cache line. Integers are little-endian. The daemon never looks into an image. Those
// that do are processes of the tenant, and still check every number: what lies in shared memory may
// have been written by any of them.

/// Alignment of the data of a shard of at least as many bytes, and of the first shard.
inline constexpr uint64_t kPageBytes = 4096;
/// Alignment of the data of a smaller shard.
inline constexpr uint64_t kLineBytes = 64;
/// Most shards of a part.
inline constexpr uint64_t kMostShards = 1'000'000;
/// Most bytes of the table of a part: a million names of usual length.
inline constexpr uint64_t kMostTableBytes = uint64_t{256} << 20;
/// Bytes that a reader has to have of an image before it knows how long header and table are.
inline constexpr uint64_t kPartHeaderBytes = 128;

/// Which part of which checkpoint an image is.
struct PartIdentity {
  uint64_t step = 0;  ///< Of the job, below 2^63.
  /// Number of the save: the same at all ranks, and another one when the same step is saved anew.
  uint64_t save = 0;
  int32_t rank = 0;
  int32_t ranks = 1;
  bool is_kept = false;  ///< The end of an epoch: it does not make room for newer ones.
  int64_t saved_ns = 0;  ///< When the rank has saved it, in nanoseconds since 1970.

  bool operator==(const PartIdentity&) const = default;
};

/// A shard and where its data lies in the image.
struct PlacedShard {
  Shard shard;
  uint64_t at = 0;

  bool operator==(const PlacedShard&) const = default;
};

/// Where everything lies in an image with these shards.
struct PartLayout {
  std::vector<PlacedShard> shards;
  std::vector<std::byte> table;  ///< Encoded, as it stands behind the header.
  uint64_t data_at = 0;
  uint64_t bytes = 0;  ///< Of the image.

  /// Errors: kInvalidArgument for a shard that CheckShard refuses, too many shards, and names that
  /// are too long together.
  static Result<PartLayout> Of(std::vector<Shard> shards);

  /// Writes header and table to the beginning of an image. Requires: `image` has room for `data_at`
  /// bytes.
  void Write(const PartIdentity& identity, std::byte* image) const;
};

/// An image's header and table, as they were read.
struct PartTable {
  PartIdentity identity;
  std::vector<PlacedShard> shards;
  uint64_t bytes = 0;  ///< Of the image.
};

/// Reads `bytes` bytes of an image from `at` on into `into`. Errors are the caller's.
using ReadImage = std::function<Status(uint64_t at, std::span<std::byte> into)>;

/// Reads header and table of an image of at most `most_bytes`. Errors: those of `read`;
/// kInvalidArgument for what is no image, or a damaged one. Every shard of the result has passed
/// CheckShard, and its data lies in the image.
Result<PartTable> ReadPartTable(uint64_t most_bytes, const ReadImage& read);

}  // namespace harmonaize::checkpoint

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/checkpoint/part_image.h"
#include "src/checkpoint/store_format.h"

namespace harmonaize::store {

/// Shards of fewer bytes share files: a file costs a file system, and each who opens it, as much as
/// so many bytes do.
inline constexpr uint64_t kPackedBelowBytes = 1 << 20;
/// Bytes of shards after which a shared file ends: a change of one shard writes its file anew.
inline constexpr uint64_t kMostPackBytes = 16 << 20;
/// Shards after which a shared file ends, so that its header is small.
inline constexpr size_t kMostPackShards = 4096;

/// Returns which shards of a part share a file, by their numbers. A large one has its own. The same
/// shards are always divided alike, so that files of the same contents come about again. In files
/// of the universal format no two share one.
std::vector<std::vector<size_t>> GroupShards(const std::vector<checkpoint::PlacedShard>& shards,
                                             checkpoint::StoreFormat format);

}  // namespace harmonaize::store

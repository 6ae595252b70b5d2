#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/checkpoint/shard.h"
#include "src/checkpoint/store_format.h"

namespace harmonaize::store {

// A file of a store or of an export is an *envelope* around data of shards. Its layout is known
// before it is written, so that its digest is, too.

/// Alignment of a shard's data in a file, so that readers may map it: that of a cache line.
inline constexpr uint64_t kDataAlignment = 64;

/// A run of bytes of a file: the envelope's own, or the data of a shard.
struct Piece {
  static constexpr size_t kOwn = SIZE_MAX;

  std::string own = {};
  size_t shard = kOwn;
  uint64_t bytes = 0;
};

/// Where a shard lies in a file.
struct LaidShard {
  uint64_t at = 0;
  /// The file of torch.save around it, if there is one; else of 0 bytes.
  uint64_t blob_at = 0;
  uint64_t blob_bytes = 0;
};

/// What a file consists of, in order.
struct ObjectLayout {
  std::vector<Piece> pieces = {};
  std::vector<LaidShard> shards = {};  ///< By their numbers.
  uint64_t bytes = 0;
  std::string_view extension = {};

  /// Appends bytes of the envelope, zeros up to a multiple, or the data of the next shard.
  void AddOwn(std::string own);
  void AlignTo(uint64_t multiple);
  void AddShard(uint64_t data_bytes);
};

/// A shard that is to be laid into a file, and CRC-32 of its data, which files of torch.save need.
struct ShardToLay {
  const checkpoint::Shard* shard = nullptr;
  uint32_t crc32 = 0;
};

/// Returns a safetensors file of these shards. Requires: their names differ.
ObjectLayout SafetensorsLayout(std::span<const ShardToLay> shards);

/// Returns a file of PyTorch's distributed checkpoint: files of torch.save with one tensor each,
/// one after the other, and objects as they are.
ObjectLayout DcpLayout(std::span<const ShardToLay> shards);

/// Returns a file of torch.save with a dictionary as DeepSpeed's universal checkpoints have it for
/// a state of a parameter: {"param": the tensor, "cat_dim": 0}. Of an object, the object as it is.
ObjectLayout UcpLayout(const ShardToLay& shard);

/// Returns a file of torch.save with one value of Python, which a pickle gives, and nothing else.
ObjectLayout TorchFileLayout(std::string pickle);

/// Returns the layout of an object of a store.
ObjectLayout LayoutOf(checkpoint::StoreFormat format, std::span<const ShardToLay> shards);

}  // namespace harmonaize::store

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/base/status.h"
#include "src/checkpoint/shard.h"
#include "src/checkpoint/shard_reader.h"
#include "src/checkpoint/stored_checkpoint.h"

namespace harmonaize::store {

/// The whole tensors of a checkpoint, put together from the shards that ranks have saved, however
/// large they are. Thread: one.
class TensorSource {
 public:
  /// Requires: `stored` outlives this object. Errors: those of ShardReader::Of.
  static Result<TensorSource> Of(checkpoint::StoredCheckpoint* stored);

  /// The tensors and objects, by name, each as one shard that is all of it.
  const std::vector<checkpoint::Shard>& tensors() const { return tensors_; }

  /// Reads bytes of the tensor with this index in tensors(). Errors: no rank has saved some of
  /// them; those of the checkpoint.
  Status Read(size_t tensor, uint64_t at, std::span<std::byte> into);

 private:
  explicit TensorSource(checkpoint::ShardReader reader) : reader_(std::move(reader)) {}

  Status Fill(size_t tensor, uint64_t at);

  checkpoint::ShardReader reader_;
  std::vector<checkpoint::Shard> tensors_;
  // A window of whole rows of one tensor, since a box is what a reader reads.
  size_t window_of_ = SIZE_MAX;
  uint64_t window_at_ = 0;
  std::vector<std::byte> window_;
};

}  // namespace harmonaize::store

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/checkpoint/shard_reader.h"
#include "src/checkpoint/shard_source.h"
#include "src/client/operation/communicator.h"

namespace harmonaize {

/// The kinds of places that a checkpoint is read from, the nearest first.
enum class CheckpointPlace : uint8_t { kMemory = 0, kPeer, kStorage };
/// Returns "memory", "peer" or "storage".
const char* NameOf(CheckpointPlace place);

/// A checkpoint that can be read, under any number of ranks. Thread: one at a time.
class SavedCheckpoint {
 public:
  /// Opens a checkpoint of the communicator's job, the same at all of its ranks, which all call.
  /// Rank 0 chooses: that of `step`, or without one the newest, and of several copies the nearest.
  /// `folder` is the store, or kProviderStore; "": only memory is looked at. Errors, the same at
  /// all ranks where nothing is found: kUnavailable if there is none; kInvalidArgument for a
  /// damaged one; the communicator's failure.
  static Result<std::unique_ptr<SavedCheckpoint>> Open(Communicator& communicator,
                                                       const std::string& folder,
                                                       std::optional<uint64_t> step);
  /// Opens a checkpoint of a store, without a communicator. Errors: kUnavailable if there is none;
  /// kInvalidArgument for a damaged one.
  static Result<std::unique_ptr<SavedCheckpoint>> OpenStored(const std::string& folder,
                                                             std::optional<uint64_t> step);
  SavedCheckpoint(const SavedCheckpoint&) = delete;
  SavedCheckpoint& operator=(const SavedCheckpoint&) = delete;

  uint64_t step() const { return step_; }
  uint64_t save() const { return save_; }
  /// Number of ranks that have saved it.
  int ranks() const { return ranks_; }
  CheckpointPlace place() const { return place_; }

  /// A tensor that it has.
  struct Tensor {
    std::string name;
    checkpoint::TensorView view;
  };
  /// All tensors, by their names' order.
  const std::vector<Tensor>& tensors() const { return tensors_; }

  /// Reads boxes of tensors. `data` has the address for each. Errors: those of ShardReader::Read.
  Status Read(std::span<const checkpoint::Shard> wanted, std::span<std::byte* const> data);

 private:
  SavedCheckpoint(std::unique_ptr<checkpoint::ShardSource> source, checkpoint::ShardReader reader);

  std::unique_ptr<checkpoint::ShardSource> source_;
  checkpoint::ShardReader reader_;
  std::vector<Tensor> tensors_;
  uint64_t step_ = 0;
  uint64_t save_ = 0;
  int ranks_ = 1;
  CheckpointPlace place_ = CheckpointPlace::kMemory;
};

}  // namespace harmonaize

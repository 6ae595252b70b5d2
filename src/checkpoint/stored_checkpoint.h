#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"
#include "src/checkpoint/folder.h"
#include "src/checkpoint/manifest.h"
#include "src/checkpoint/shard_source.h"

namespace harmonaize::checkpoint {

/// What a store's list of checkpoints says of one.
struct CheckpointSummary {
  CheckpointId id = {};
  bool is_committed = false;  ///< If not, it is being saved, or was given up; the rest is empty.
  uint64_t number = 0;        ///< The largest of a store is that of its newest checkpoint.
  int32_t ranks = 0;
  uint64_t bytes = 0;
  uint64_t new_bytes = 0;  ///< Of objects that the store did not have before.
  bool is_kept = false;
  StoreFormat format = StoreFormat::kSafetensors;
  std::string job = {};
  std::string time = {};     ///< When it was saved: "2026-11-26T08:30:00.123456Z".
  std::string problem = {};  ///< Why the record of its commit cannot be read; "": it can.
};

/// Returns the checkpoints of a store, the newest first and those that are not committed last.
/// Errors: kUnavailable if the folder is no store; kSystemError.
Result<std::vector<CheckpointSummary>> ListCheckpoints(const std::string& folder);
/// Returns the same of the folder of a store in which its checkpoints lie.
Result<std::vector<CheckpointSummary>> ListCheckpointsIn(const Folder& steps);

/// Where a shard of a stored checkpoint lies.
struct ShardPlace {
  size_t object = 0;
  int32_t rank = 0;
  uint64_t at = 0;
  uint64_t checksum = 0;
  uint64_t blob_at = 0;
  uint64_t blob_bytes = 0;
};

/// A committed checkpoint of a store, which is not removed while it is open. Thread: one.
class StoredCheckpoint final : public ShardSource {
 public:
  /// Opens the checkpoint of this step, or the newest. Of several of one step it is the newest.
  /// Errors: kUnavailable if there is none; kInvalidArgument if it is damaged; kSystemError.
  static Result<std::unique_ptr<StoredCheckpoint>> Open(const std::string& folder,
                                                        std::optional<uint64_t> step = {});

  /// Opens this checkpoint, of maybe several of its step. Errors: as Open.
  static Result<std::unique_ptr<StoredCheckpoint>> OpenOne(const std::string& folder,
                                                           const CheckpointId& id);

  /// The shards of all ranks, in the order of ranks. What several ranks have saved alike is there
  /// several times.
  const std::vector<Shard>& shards() const override { return shards_; }
  /// Reads from files. Before the first bytes of a shard are given out, all of it is read once and
  /// compared with its checksum. Errors: kInvalidArgument if it is damaged; kSystemError.
  Status Read(size_t shard, uint64_t at, std::span<std::byte> into) override;

  const CheckpointSummary& summary() const { return summary_; }
  const CommitRecord& record() const { return record_; }
  /// Where each of shards() lies.
  const std::vector<ShardPlace>& places() const { return places_; }
  /// The files that it is made of, each once. Their own lists of shards are empty.
  const std::vector<StoredObject>& objects() const { return objects_; }
  /// The checkpoint's folder, and that of its objects.
  const Folder& folder() const { return folder_; }
  const Folder& objects_folder() const { return objects_folder_; }

 private:
  StoredCheckpoint() = default;

  static Result<std::unique_ptr<StoredCheckpoint>> OpenFirst(
      const std::string& folder, const std::string& wanted,
      const std::function<bool(const CheckpointSummary&)>& is_wanted);
  static Result<std::unique_ptr<StoredCheckpoint>> OpenIn(const Folder& steps,
                                                          CheckpointSummary summary);
  Status ReadParts();
  Status AddPart(PartManifest manifest);
  Result<int> DescriptorOf(size_t object);
  Status CheckWhole(size_t shard);

  CheckpointSummary summary_;
  CommitRecord record_;
  Folder folder_;
  Folder objects_folder_;
  FileDescriptor lock_;
  std::vector<Shard> shards_;
  std::vector<ShardPlace> places_;
  std::vector<bool> is_checked_;
  std::vector<StoredObject> objects_;
  std::unordered_map<std::string, size_t> object_numbers_;
  std::deque<std::pair<size_t, FileDescriptor>> open_files_;
};

/// Takes the lock of a checkpoint's folder as one of several that use it: it is not removed while
/// the result is open. `open_flags` are those of open(2) for the lock's file. Returns an invalid
/// descriptor where the file system has no locks, or forbids this one. Errors: kUnavailable if the
/// folder is being removed, or was.
Result<FileDescriptor> ShareCheckpoint(const Folder& checkpoint, int open_flags);

}  // namespace harmonaize::checkpoint

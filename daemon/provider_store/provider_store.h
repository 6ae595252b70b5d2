#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "daemon/identity/job_identity.h"
#include "src/base/status.h"
#include "src/checkpoint/shard_reader.h"
#include "src/checkpoint/store_names.h"
#include "src/checkpoint/stored_checkpoint.h"

namespace harmonaize::daemon {

/// A job, as all hosts and later runs of the daemon know it.
struct StoredJob {
  uint32_t user = 0;  ///< TenantIdentity::across_hosts.
  JobIdentity job = {};

  auto operator<=>(const StoredJob&) const = default;
};

/// A part of a checkpoint that is to be stored.
struct PartToStore {
  checkpoint::CheckpointId id = {};
  int32_t rank = 0;
  int32_t ranks = 1;
  bool is_kept = false;
  double saved_seconds = 0;  ///< Since 1970.
  uint64_t bytes = 0;
  int descriptor = -1;  ///< Of the memory that has it from the beginning on.
};

/// A checkpoint of the provider's store that is read. It is not removed meanwhile. Thread: one at a
/// time.
class StoredImages {
 public:
  int32_t ranks() const { return stored_->summary().ranks; }
  /// Returns the bytes of a rank's part. Errors: kUnavailable if it has none of this rank.
  Result<uint64_t> BytesOf(int32_t rank) const;
  /// Errors: those of BytesOf; those of checkpoint::ShardReader::Read.
  Status Read(int32_t rank, uint64_t at, std::span<std::byte> into);

 private:
  friend class ProviderStore;
  StoredImages(std::unique_ptr<checkpoint::StoredCheckpoint> stored,
               checkpoint::ShardReader reader);

  std::unique_ptr<checkpoint::StoredCheckpoint> stored_;
  checkpoint::ShardReader reader_;
};

/// The operator's folder in which the daemon stores checkpoints for tenants, who read them back
/// through the daemon alone (docs/provider-store.md). Each job has a store of its own in it
/// (docs/checkpoint-store.md). The daemon does not look into a part: it is a tensor of bytes there,
/// of which each run of kChunkBytes is a file. The daemons of several hosts may use one folder.
/// Everything here takes as long as the file system does. Thread: any.
class ProviderStore {
 public:
  struct Settings {
    std::string folder = {};
    uint32_t keep = 2;  ///< Newest checkpoints of a job that stay.
    /// Time, in seconds, after which the checkpoints of a job go that nothing was added to.
    double keep_seconds = 0;
    uint64_t most_bytes_per_second = 0;  ///< At which a tenant's parts are written; 0: no bound.
    uint64_t most_bytes_of_user = 0;     ///< That may lie there of one user.
  };
  /// Bytes of a part that share a file: what does not change is not written again by so many bytes,
  /// and a file system has so many files.
  static constexpr uint64_t kChunkBytes = 16 << 20;

  explicit ProviderStore(Settings settings) : settings_(std::move(settings)) {}

  /// Returns why the folder cannot be used, or OK. Errors: kSystemError: it is missing, others than
  /// its owner may enter it, ...
  Status Check() const;

  /// Stores a part. `go_on` is asked every few MiB: what it returns ends the work, unless it is ok.
  /// Errors: kInvalidUsage if the user would have more than may be, or the part changes meanwhile;
  /// kSystemError; those of go_on.
  Status Write(const StoredJob& job, const PartToStore& part,
               const std::function<Status()>& go_on) const;
  /// Makes a checkpoint of the parts of all ranks, and removes what has made room for it. Returns
  /// false if there is a rank whose part is not seen here. Errors: as checkpoint::Commit::Look.
  Result<bool> Commit(const StoredJob& job, const checkpoint::CheckpointId& id,
                      int32_t ranks) const;
  /// Removes what there is of a checkpoint that will not come about.
  void GiveUp(const StoredJob& job, const checkpoint::CheckpointId& id) const;

  /// Returns the checkpoints of a job, the newest first. Errors: those of Check;
  /// kSystemError.
  Result<std::vector<checkpoint::CheckpointSummary>> List(const StoredJob& job) const;
  /// Errors: kUnavailable if it is not there; kInvalidArgument if it is damaged; kSystemError.
  Result<std::shared_ptr<StoredImages>> Open(const StoredJob& job,
                                             const checkpoint::CheckpointId& id) const;

  /// Removes the checkpoints of jobs whose time is over, and those that have made room for newer
  /// ones while somebody read them. Returns how many jobs went. Errors: those of Check;
  /// kSystemError.
  Result<uint32_t> TidyUp() const;

 private:
  std::string PathOf(const StoredJob& job) const;
  bool RemoveIfExpired(const std::filesystem::path& user, const std::filesystem::path& job) const;
  Status CheckRoom(const StoredJob& job, uint64_t bytes,
                   const std::function<Status()>& go_on) const;
  Status MakeRoom(const StoredJob& job, uint64_t bytes, const std::function<Status()>& go_on) const;

  const Settings settings_;
};

}  // namespace harmonaize::daemon

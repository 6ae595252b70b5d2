#include "daemon/provider_store/provider_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fts.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "src/base/random.h"
#include "src/base/read_whole.h"
#include "src/base/saturating.h"
#include "src/base/wall_clock.h"
#include "src/checkpoint/part_image.h"
#include "src/store/commit.h"
#include "src/store/part_writer.h"
#include "src/store/retention.h"
#include "src/store/store.h"

namespace harmonaize::daemon {
namespace {

using checkpoint::CheckpointId;
using checkpoint::Shard;

/// Nobody but the daemon's user reads what tenants have stored.
constexpr mode_t kFolderMode = 0700;
constexpr mode_t kOthers = 0077;
/// Beginning of the names of folders of users, and of jobs that are being removed.
constexpr char kUserPrefix[] = "user-";
constexpr char kRemovedPrefix[] = "removed-";

/// Returns the name of the tensor that a rank's part is.
std::string TensorOf(int32_t rank) {
  return fmt::format("rank-{}", rank);
}

/// Returns the run of a rank's part from `at` on.
Shard RunOf(int32_t rank, uint64_t part_bytes, uint64_t at, uint64_t bytes) {
  return {.name = TensorOf(rank),
          .type = checkpoint::ElementType::kU8,
          .is_object = false,
          .global_shape = {static_cast<int64_t>(part_bytes)},
          .box = {.offset = {static_cast<int64_t>(at)}, .shape = {static_cast<int64_t>(bytes)}}};
}

/// Returns a part as the store is to see it. Its shards lie where they lie in the part.
checkpoint::PartTable TableOf(const PartToStore& part) {
  checkpoint::PartTable table = {
      .identity = {.step = part.id.step,
                   .save = part.id.save,
                   .rank = part.rank,
                   .ranks = part.ranks,
                   .is_kept = part.is_kept,
                   .saved_ns = static_cast<int64_t>(part.saved_seconds * 1e9)},
      .shards = {},
      .bytes = part.bytes};
  for (uint64_t at = 0; at < part.bytes; at += ProviderStore::kChunkBytes) {
    const uint64_t bytes = std::min(ProviderStore::kChunkBytes, part.bytes - at);
    table.shards.push_back({.shard = RunOf(part.rank, part.bytes, at, bytes), .at = at});
  }
  return table;
}

Status MakeFolder(const std::string& path) {
  if (mkdir(path.c_str(), kFolderMode) == 0 || errno == EEXIST) return Status::Ok();
  return ErrnoError(errno, "cannot make the folder " + path);
}

/// Bytes as which a file or a folder counts at least: what a file system spends on many of them, so
/// that a bound of bytes bounds them, too.
constexpr uint64_t kLeastBytes = 64 << 10;

/// Returns the bytes of all that lies below a folder. A file of several names counts once. Errors:
/// those of go_on.
Result<uint64_t> BytesBelow(const std::string& folder, const std::function<Status()>& go_on) {
  std::string path = folder;
  char* const roots[] = {path.data(), nullptr};
  const std::unique_ptr<FTS, int (*)(FTS*)> walk(
      fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, nullptr), &fts_close);
  if (walk == nullptr) return uint64_t{0};
  uint64_t bytes = 0;
  std::set<ino_t> counted;
  while (const FTSENT* const entry = fts_read(walk.get())) {
    HZ_RETURN_IF_ERROR(go_on());
    if (entry->fts_info != FTS_F && entry->fts_info != FTS_D) continue;
    const struct stat& state = *entry->fts_statp;
    const bool has_names = entry->fts_info == FTS_F && state.st_nlink > 1;
    if (has_names && !counted.insert(state.st_ino).second) continue;
    bytes = AddUpTo(bytes, std::max(kLeastBytes, static_cast<uint64_t>(state.st_size)));
  }
  return bytes;
}

/// Returns the folders in a folder.
Result<std::vector<std::filesystem::path>> FoldersIn(const std::filesystem::path& folder) {
  std::error_code error;
  std::vector<std::filesystem::path> folders;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->symlink_status().type() == std::filesystem::file_type::directory) {
      folders.push_back(entry->path());
    }
  }
  if (error) return SystemError("cannot read {}: {}", folder.string(), error.message());
  return folders;
}

}  // namespace

// ---------------------------------------------------------------------------------------------
// Reading

StoredImages::StoredImages(std::unique_ptr<checkpoint::StoredCheckpoint> stored,
                           checkpoint::ShardReader reader)
    : stored_(std::move(stored)), reader_(std::move(reader)) {}

Result<uint64_t> StoredImages::BytesOf(int32_t rank) const {
  const auto found = reader_.tensors().find(TensorOf(rank));
  if (found == reader_.tensors().end() || found->second.shape.size() != 1) {
    return Unavailable("the provider's store has no part of rank {}", rank);
  }
  return static_cast<uint64_t>(found->second.shape.front());
}

Status StoredImages::Read(int32_t rank, uint64_t at, std::span<std::byte> into) {
  if (into.empty()) return Status::Ok();
  HZ_ASSIGN_OR_RETURN(const uint64_t part_bytes, BytesOf(rank));
  return reader_.Read(RunOf(rank, part_bytes, at, into.size()), into.data());
}

// ---------------------------------------------------------------------------------------------
// The folder

Status ProviderStore::Check() const {
  const std::string& folder = settings_.folder;
  if (!folder.starts_with('/')) return SystemError("'{}' is not an absolute path", folder);
  struct stat state {};
  // It is not made: where it is missing, its file system is likely not to be there.
  if (stat(folder.c_str(), &state) != 0) {
    return ErrnoError(errno, "cannot use " + folder + ", which has to exist with mode 0700");
  }
  if (!S_ISDIR(state.st_mode)) return SystemError("{} is no folder", folder);
  if ((state.st_mode & kOthers) != 0) {
    return SystemError(
        "others may enter {}, in which tenants' checkpoints are to lie: name a folder "
        "of mode 0700 for nothing else",
        folder);
  }
  if (access(folder.c_str(), R_OK | W_OK | X_OK) != 0) {
    return ErrnoError(errno, "cannot write to " + folder);
  }
  return Status::Ok();
}

std::string ProviderStore::PathOf(const StoredJob& job) const {
  return fmt::format("{}/{}{}/{}", settings_.folder, kUserPrefix, job.user, job.job.text());
}

/// A part has to have room even if all that it has is there already, which nobody knows before.
Status ProviderStore::CheckRoom(const StoredJob& job, uint64_t bytes,
                                const std::function<Status()>& go_on) const {
  const uint64_t most = settings_.most_bytes_of_user;
  if (most == 0) return Status::Ok();
  HZ_ASSIGN_OR_RETURN(
      const uint64_t used,
      BytesBelow(fmt::format("{}/{}{}", settings_.folder, kUserPrefix, job.user), go_on));
  if (used <= most && bytes <= most - used) return Status::Ok();
  return InvalidUsage(
      "the provider's store has {} of {} bytes that this user may have there, and a part has {}: "
      "save less, or ask the provider for a larger quota.stored_bytes",
      used, most, bytes);
}

/// Makes room for a part. What jobs of the user have given up goes with their next commits, which
/// may not come for want of room.
Status ProviderStore::MakeRoom(const StoredJob& job, uint64_t bytes,
                               const std::function<Status()>& go_on) const {
  if (const Status has_room = CheckRoom(job, bytes, go_on); has_room.ok()) return has_room;
  HZ_ASSIGN_OR_RETURN(const std::vector<std::filesystem::path> jobs,
                      FoldersIn(fmt::format("{}/{}{}", settings_.folder, kUserPrefix, job.user)));
  for (const std::filesystem::path& one : jobs) {
    if (one.filename().string().starts_with(kRemovedPrefix)) continue;
    const Result<store::Store> store = store::Store::Open(one.string());
    if (store.ok()) HZ_RETURN_IF_ERROR(store::RemoveAbandoned(*store));
  }
  return CheckRoom(job, bytes, go_on);
}

Status ProviderStore::Write(const StoredJob& job, const PartToStore& part,
                            const std::function<Status()>& go_on) const {
  if (part.bytes == 0) return InvalidArgument("rank {} has saved nothing", part.rank);
  HZ_RETURN_IF_ERROR(Check());
  HZ_RETURN_IF_ERROR(MakeFolder(fmt::format("{}/{}{}", settings_.folder, kUserPrefix, job.user)));
  HZ_RETURN_IF_ERROR(MakeRoom(job, part.bytes, go_on));
  HZ_ASSIGN_OR_RETURN(const store::Store store, store::Store::Open(PathOf(job)));
  HZ_ASSIGN_OR_RETURN(store::OpenCheckpoint joined, store::OpenCheckpoint::Join(store, part.id));
  store::PartWriter writer(&store,
                           {.job = job.job.text(),
                            .rank = part.rank,
                            .ranks = part.ranks,
                            .format = checkpoint::StoreFormat::kSafetensors,
                            .most_bytes_per_second = settings_.most_bytes_per_second},
                           go_on);
  const auto read = [&part](uint64_t at, std::span<std::byte> into) {
    return ReadWholeAt(part.descriptor, at, into, "a part of a checkpoint");
  };
  const Status written = writer.WriteShards(TableOf(part), read, joined).status();
  // Whoever has given it up meanwhile has left the folder to its last writer.
  if (store::IsMarkedFailed(joined)) store::GiveUp(store, std::move(joined));
  return written;
}

Result<bool> ProviderStore::Commit(const StoredJob& job, const CheckpointId& id,
                                   int32_t ranks) const {
  HZ_ASSIGN_OR_RETURN(const store::Store store, store::Store::Open(PathOf(job)));
  HZ_ASSIGN_OR_RETURN(store::OpenCheckpoint joined, store::OpenCheckpoint::Join(store, id));
  {
    // The lock goes with this object: the next call may remove this very checkpoint.
    store::Commit commit(&store, std::move(joined), 0, ranks);
    const Result<bool> is_committed = commit.Look();
    // The part of rank 0 itself may not be seen here.
    if (is_committed.status().code() == Code::kUnavailable) return false;
    HZ_RETURN_IF_ERROR(is_committed.status());
    if (!*is_committed) return false;
  }
  HZ_RETURN_IF_ERROR(store::RemoveOld(store, settings_.keep).status());
  return true;
}

void ProviderStore::GiveUp(const StoredJob& job, const CheckpointId& id) const {
  const Result<store::Store> store = store::Store::Open(PathOf(job));
  if (!store.ok()) return;
  Result<store::OpenCheckpoint> joined = store::OpenCheckpoint::Join(*store, id);
  if (joined.ok()) store::GiveUp(*store, std::move(*joined));
}

Result<std::vector<checkpoint::CheckpointSummary>> ProviderStore::List(const StoredJob& job) const {
  HZ_RETURN_IF_ERROR(Check());
  Result<std::vector<checkpoint::CheckpointSummary>> list =
      checkpoint::ListCheckpoints(PathOf(job));
  if (list.status().code() == Code::kUnavailable) {
    return std::vector<checkpoint::CheckpointSummary>();
  }
  HZ_RETURN_IF_ERROR(list.status());
  std::erase_if(*list, [](const checkpoint::CheckpointSummary& one) {
    return !one.is_committed || !one.problem.empty();
  });
  return list;
}

Result<std::shared_ptr<StoredImages>> ProviderStore::Open(const StoredJob& job,
                                                          const CheckpointId& id) const {
  HZ_RETURN_IF_ERROR(Check());
  const std::string path = PathOf(job);
  HZ_ASSIGN_OR_RETURN(std::unique_ptr<checkpoint::StoredCheckpoint> stored,
                      checkpoint::StoredCheckpoint::OpenOne(path, id));
  HZ_ASSIGN_OR_RETURN(checkpoint::ShardReader reader, checkpoint::ShardReader::Of(stored.get()));
  // The time of a job that is read begins anew. Without that, it ends as it would have.
  utimensat(AT_FDCWD, (path + "/" + checkpoint::kStepsFolder).c_str(), nullptr, 0);
  return std::shared_ptr<StoredImages>(new StoredImages(std::move(stored), std::move(reader)));
}

Result<uint32_t> ProviderStore::TidyUp() const {
  HZ_RETURN_IF_ERROR(Check());
  HZ_ASSIGN_OR_RETURN(const std::vector<std::filesystem::path> users, FoldersIn(settings_.folder));
  uint32_t removed = 0;
  for (const std::filesystem::path& user : users) {
    if (!user.filename().string().starts_with(kUserPrefix)) continue;
    HZ_ASSIGN_OR_RETURN(const std::vector<std::filesystem::path> jobs, FoldersIn(user));
    for (const std::filesystem::path& job : jobs) {
      if (RemoveIfExpired(user, job)) {
        ++removed;
        continue;
      }
      // What somebody read when newer ones came.
      const Result<store::Store> store = store::Store::Open(job.string());
      if (!store.ok()) continue;
      [[maybe_unused]] const Result<uint32_t> left = store::RemoveOld(*store, settings_.keep);
    }
    // A user of whom nothing is left leaves nothing.
    rmdir(user.c_str());
  }
  return removed;
}

/// Removes a job's store if its time is over. Returns whether it is gone.
bool ProviderStore::RemoveIfExpired(const std::filesystem::path& user,
                                    const std::filesystem::path& job) const {
  std::filesystem::path gone = job;
  const bool was_cut_short = job.filename().string().starts_with(kRemovedPrefix);
  if (!was_cut_short) {
    struct stat state {};
    const bool has_expired =
        settings_.keep_seconds > 0 && stat((job / checkpoint::kStepsFolder).c_str(), &state) == 0 &&
        static_cast<double>(state.st_mtime) < UnixSeconds() - settings_.keep_seconds;
    if (!has_expired) return false;
    // It loses its name first: nobody finds half of it.
    gone = user / fmt::format("{}{:016x}", kRemovedPrefix, RandomNumber());
    if (rename(job.c_str(), gone.c_str()) != 0) return false;
  }
  std::error_code error;
  std::filesystem::remove_all(gone, error);
  return true;
}

}  // namespace harmonaize::daemon

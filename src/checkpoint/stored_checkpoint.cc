#include "src/checkpoint/stored_checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <exception>
#include <thread>
#include <tuple>

#include "src/base/read_whole.h"
#include "src/checkpoint/checksum.h"
#include "src/checkpoint/json_fields.h"

namespace harmonaize::checkpoint {
namespace {

/// Most files that a checkpoint holds open: reads go through them in order, and a program may not
/// have many descriptors.
constexpr size_t kMostOpenFiles = 8;
/// Bytes that are read at once to be checked.
constexpr uint64_t kCheckedBytes = 1 << 20;
/// How often a checkpoint is looked for that others remove, or have locked to tidy up, and the time
/// between in milliseconds: both take a moment.
constexpr int kOpenTries = 100;
constexpr int kOpenPauseMs = 20;
/// Most bytes of the file that says what a store is.
constexpr uint64_t kMostStoreFileBytes = 4096;

/// Calls a function that may run out of memory.
template <typename Function>
auto Guarded(const Function& function) -> decltype(function()) {
  try {
    return function();
  } catch (const std::exception& error) {
    return InternalError("cannot read a checkpoint: {}", error.what());
  }
}

Result<Folder> OpenSteps(const std::string& folder) {
  HZ_ASSIGN_OR_RETURN(const Folder root, Folder::OpenAt(folder));
  const Result<std::string> text = root.ReadFile(kStoreFile, kMostStoreFileBytes);
  if (!text.ok()) {
    return Unavailable("{} is no store of checkpoints: {}", folder, text.status().message());
  }
  HZ_ASSIGN_OR_RETURN(const nlohmann::json document, ParseObject(*text, root.PathOf(kStoreFile)));
  JsonFields fields(document, root.PathOf(kStoreFile));
  fields.Count("version", 1, kStoreVersion);
  HZ_RETURN_IF_ERROR(fields.status());
  return root.Open(kStepsFolder);
}

CheckpointSummary SummaryOf(const CommitRecord& record) {
  return {.id = record.id,
          .is_committed = true,
          .number = record.number,
          .ranks = static_cast<int32_t>(record.parts.size()),
          .bytes = record.bytes,
          .new_bytes = record.new_bytes,
          .is_kept = record.is_kept,
          .format = record.format,
          .job = record.job,
          .time = record.time};
}

Result<CommitRecord> ReadCommit(const Folder& checkpoint, const CheckpointId& id) {
  HZ_ASSIGN_OR_RETURN(const std::string text, checkpoint.ReadFile(kCommitFile, kMostCommitBytes));
  HZ_ASSIGN_OR_RETURN(CommitRecord record, ParseCommit(text));
  if (record.id != id) {
    return InvalidArgument("{} belongs to another checkpoint", checkpoint.PathOf(kCommitFile));
  }
  return record;
}

CheckpointSummary Summarize(const Folder& steps, const std::string& name, const CheckpointId& id) {
  const Result<Folder> folder = steps.Open(name);
  const Result<CommitRecord> record =
      folder.ok() ? ReadCommit(*folder, id) : Result<CommitRecord>(folder.status());
  if (record.ok()) return SummaryOf(*record);
  CheckpointSummary summary = {.id = id};
  if (record.status().code() != Code::kUnavailable) summary.problem = record.status().message();
  return summary;
}

}  // namespace

Result<FileDescriptor> ShareCheckpoint(const Folder& checkpoint, int open_flags) {
  FileDescriptor lock(
      openat(checkpoint.fd(), kLockFile, open_flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666));
  // Whoever may not open it for some reason other than its absence goes without.
  if (!lock.valid()) {
    if (errno == ENOENT) return Unavailable("{} was removed", checkpoint.path());
    return FileDescriptor();
  }
  if (flock(lock.get(), LOCK_SH | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return Unavailable("{} is being removed", checkpoint.path());
    return FileDescriptor();
  }
  struct stat state {};
  if (fstat(lock.get(), &state) != 0 || state.st_nlink == 0) {
    return Unavailable("{} was removed", checkpoint.path());
  }
  return lock;
}

Result<std::vector<CheckpointSummary>> ListCheckpointsIn(const Folder& steps) {
  HZ_ASSIGN_OR_RETURN(const std::vector<std::string> names, steps.Names());
  std::vector<CheckpointSummary> list;
  for (const std::string& name : names) {
    if (const std::optional<CheckpointId> id = CheckpointIdOf(name)) {
      list.push_back(Summarize(steps, name, *id));
    }
  }
  const auto order = [](const CheckpointSummary& one) {
    return std::tuple(one.is_committed, one.number, one.id);
  };
  std::sort(list.begin(), list.end(),
            [&](const auto& one, const auto& other) { return order(one) > order(other); });
  return list;
}

Result<std::vector<CheckpointSummary>> ListCheckpoints(const std::string& folder) {
  return Guarded([&]() -> Result<std::vector<CheckpointSummary>> {
    HZ_ASSIGN_OR_RETURN(const Folder steps, OpenSteps(folder));
    return ListCheckpointsIn(steps);
  });
}

Result<std::unique_ptr<StoredCheckpoint>> StoredCheckpoint::Open(const std::string& folder,
                                                                 std::optional<uint64_t> step) {
  return Guarded([&]() {
    const std::string wanted = step.has_value() ? fmt::format(" of step {}", *step) : "";
    return OpenFirst(folder, wanted, [&](const CheckpointSummary& one) {
      return !step.has_value() || one.id.step == *step;
    });
  });
}

Result<std::unique_ptr<StoredCheckpoint>> StoredCheckpoint::OpenOne(const std::string& folder,
                                                                    const CheckpointId& id) {
  return Guarded([&]() {
    return OpenFirst(folder, " " + CheckpointFolderName(id),
                     [&](const CheckpointSummary& one) { return one.id == id; });
  });
}

Result<std::unique_ptr<StoredCheckpoint>> StoredCheckpoint::OpenFirst(
    const std::string& folder, const std::string& wanted,
    const std::function<bool(const CheckpointSummary&)>& is_wanted) {
  HZ_ASSIGN_OR_RETURN(const Folder steps, OpenSteps(folder));
  Status last = Unavailable("{} has no committed checkpoint{}", folder, wanted);
  // The newest one may be removed between the list and its lock, after a newer one has come.
  for (int i = 0; i < kOpenTries; ++i) {
    if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(kOpenPauseMs));
    HZ_ASSIGN_OR_RETURN(const std::vector<CheckpointSummary> list, ListCheckpointsIn(steps));
    const auto found = std::find_if(list.begin(), list.end(), [&](const CheckpointSummary& one) {
      return one.is_committed && is_wanted(one);
    });
    if (found == list.end()) return last;
    Result<std::unique_ptr<StoredCheckpoint>> opened = OpenIn(steps, *found);
    if (opened.ok() || opened.status().code() != Code::kUnavailable) return opened;
    last = opened.status();
  }
  return last;
}

Result<std::unique_ptr<StoredCheckpoint>> StoredCheckpoint::OpenIn(const Folder& steps,
                                                                   CheckpointSummary summary) {
  std::unique_ptr<StoredCheckpoint> opened(new StoredCheckpoint);
  HZ_ASSIGN_OR_RETURN(opened->folder_, steps.Open(CheckpointFolderName(summary.id)));
  HZ_ASSIGN_OR_RETURN(opened->lock_, ShareCheckpoint(opened->folder_, O_RDONLY));
  HZ_ASSIGN_OR_RETURN(opened->record_, ReadCommit(opened->folder_, summary.id));
  HZ_ASSIGN_OR_RETURN(opened->objects_folder_, opened->folder_.Open(kObjectsFolder));
  opened->summary_ = std::move(summary);
  HZ_RETURN_IF_ERROR(opened->ReadParts());
  return opened;
}

Status StoredCheckpoint::ReadParts() {
  for (size_t rank = 0; rank < record_.parts.size(); ++rank) {
    const std::string name = PartFileName(static_cast<int32_t>(rank));
    const Result<std::string> text = folder_.ReadFile(name, kMostManifestBytes);
    // Its checkpoint is committed, so its absence is damage.
    if (!text.ok()) return InvalidArgument("{}", text.status().message());
    if (ChecksumOf(std::as_bytes(std::span(*text))) != record_.parts[rank].checksum) {
      return InvalidArgument("{} is damaged", folder_.PathOf(name));
    }
    HZ_ASSIGN_OR_RETURN(PartManifest manifest, ParseManifest(*text));
    const PartIdentity& identity = manifest.identity;
    if (CheckpointId{identity.step, identity.save} != record_.id ||
        static_cast<size_t>(identity.rank) != rank ||
        static_cast<size_t>(identity.ranks) != record_.parts.size()) {
      return InvalidArgument("{} belongs to another checkpoint", folder_.PathOf(name));
    }
    HZ_RETURN_IF_ERROR(AddPart(std::move(manifest)));
  }
  is_checked_.assign(shards_.size(), false);
  return Status::Ok();
}

Status StoredCheckpoint::AddPart(PartManifest manifest) {
  for (StoredObject& object : manifest.objects) {
    const auto [entry, is_new] = object_numbers_.emplace(object.name, objects_.size());
    if (is_new) objects_.push_back({.name = object.name, .bytes = object.bytes});
    if (objects_[entry->second].bytes != object.bytes) {
      return InvalidArgument("manifests disagree about the size of {}", object.name);
    }
    for (StoredShard& stored : object.shards) {
      places_.push_back({.object = entry->second,
                         .rank = manifest.identity.rank,
                         .at = stored.at,
                         .checksum = stored.checksum,
                         .blob_at = stored.blob_at,
                         .blob_bytes = stored.blob_bytes});
      shards_.push_back(std::move(stored.shard));
    }
  }
  return Status::Ok();
}

Result<int> StoredCheckpoint::DescriptorOf(size_t object) {
  for (const auto& [number, file] : open_files_) {
    if (number == object) return file.get();
  }
  const StoredObject& wanted = objects_[object];
  HZ_ASSIGN_OR_RETURN(const uint64_t bytes, objects_folder_.BytesOfFile(wanted.name));
  if (bytes != wanted.bytes) {
    return InvalidArgument("{} has {} bytes, and had {}", objects_folder_.PathOf(wanted.name),
                           bytes, wanted.bytes);
  }
  HZ_ASSIGN_OR_RETURN(FileDescriptor file, objects_folder_.OpenFile(wanted.name));
  if (open_files_.size() == kMostOpenFiles) open_files_.pop_front();
  open_files_.emplace_back(object, std::move(file));
  return open_files_.back().second.get();
}

Status StoredCheckpoint::Read(size_t shard, uint64_t at, std::span<std::byte> into) {
  return Guarded([&]() -> Status {
    const ShardPlace& place = places_[shard];
    const std::string path = objects_folder_.PathOf(objects_[place.object].name);
    HZ_ASSIGN_OR_RETURN(const int file, DescriptorOf(place.object));
    const bool is_whole = at == 0 && into.size() == BytesOf(shards_[shard]);
    if (!is_whole && !is_checked_[shard]) HZ_RETURN_IF_ERROR(CheckWhole(shard));
    HZ_RETURN_IF_ERROR(ReadWholeAt(file, place.at + at, into, path));
    if (is_whole && ChecksumOf(into) != place.checksum) {
      return InvalidArgument("'{}' of rank {} is damaged, in {}", shards_[shard].name, place.rank,
                             path);
    }
    is_checked_[shard] = true;
    return Status::Ok();
  });
}

Status StoredCheckpoint::CheckWhole(size_t shard) {
  const ShardPlace& place = places_[shard];
  const std::string path = objects_folder_.PathOf(objects_[place.object].name);
  HZ_ASSIGN_OR_RETURN(const int file, DescriptorOf(place.object));
  const uint64_t bytes = BytesOf(shards_[shard]);
  std::vector<std::byte> buffer(std::min(bytes, kCheckedBytes));
  Checksum checksum;
  for (uint64_t at = 0; at < bytes; at += buffer.size()) {
    const auto piece = std::span(buffer).first(std::min<uint64_t>(buffer.size(), bytes - at));
    HZ_RETURN_IF_ERROR(ReadWholeAt(file, place.at + at, piece, path));
    checksum.Add(piece);
  }
  if (checksum.value() == place.checksum) return Status::Ok();
  return InvalidArgument("'{}' of rank {} is damaged, in {}", shards_[shard].name, place.rank,
                         path);
}

}  // namespace harmonaize::checkpoint

#include "src/store/export_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "src/base/random.h"
#include "src/base/read_whole.h"
#include "src/store/object_file.h"
#include "src/store/store.h"

namespace harmonaize::store {
namespace {

using checkpoint::BytesOf;
using checkpoint::Folder;
using checkpoint::Shard;
using checkpoint::StoredCheckpoint;

/// Whose temporary names the files of an export have.
constexpr char kOwner[] = "export";

Status Refuse(const std::string& target) {
  return InvalidUsage("{} exists: name a folder that does not", target);
}

}  // namespace

ExportFolder::ExportFolder(StoredCheckpoint* stored, const ExportOptions& options,
                           const Progress& progress)
    : stored_(stored),
      options_(options),
      progress_(progress),
      stream_([] { return Status::Ok(); }) {}

Result<std::unique_ptr<ExportFolder>> ExportFolder::Make(StoredCheckpoint* stored,
                                                         const ExportOptions& options,
                                                         const Progress& progress) {
  ExportOptions own = options;
  while (own.target.size() > 1 && own.target.back() == '/') own.target.pop_back();
  struct stat state {};
  if (lstat(own.target.c_str(), &state) == 0) return Refuse(own.target);
  std::unique_ptr<ExportFolder> made(new ExportFolder(stored, own, progress));
  const std::string temporary = fmt::format("{}.tmp-{:016x}", own.target, RandomNumber());
  if (mkdir(temporary.c_str(), 0777) != 0) {
    return ErrnoError(errno, "cannot make the folder " + temporary);
  }
  made->temporary_ = temporary;
  HZ_ASSIGN_OR_RETURN(made->folder_, Folder::OpenAt(temporary));
  return made;
}

ExportFolder::~ExportFolder() {
  if (temporary_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(temporary_, ignored);
}

Result<Folder> ExportFolder::MakeFolder(const std::string& name) {
  return folder_.Make(name);
}

void ExportFolder::Advance(uint64_t bytes) {
  summary_.bytes += bytes;
  progress_(summary_.bytes, std::max(summary_.bytes, stored_->record().bytes));
}

Status ExportFolder::AddObject(size_t object, const Folder& into, const std::string& name) {
  const checkpoint::StoredObject& stored = stored_->objects()[object];
  HZ_ASSIGN_OR_RETURN(const uint64_t bytes, stored_->objects_folder().BytesOfFile(stored.name));
  if (bytes != stored.bytes) {
    return InvalidArgument("{} has {} bytes, and had {}", stored.name, bytes, stored.bytes);
  }
  ++summary_.files;
  const bool is_linked =
      options_.uses_links &&
      linkat(stored_->objects_folder().fd(), stored.name.c_str(), into.fd(), name.c_str(), 0) == 0;
  if (!is_linked) return CopyObject(object, into, name);
  ++summary_.linked_files;
  Advance(stored.bytes);
  return Status::Ok();
}

Status ExportFolder::CopyObject(size_t object, const Folder& into, const std::string& name) {
  const checkpoint::StoredObject& stored = stored_->objects()[object];
  const Folder& from = stored_->objects_folder();
  HZ_ASSIGN_OR_RETURN(const FileDescriptor source, from.OpenFile(stored.name));
  HZ_ASSIGN_OR_RETURN(ObjectFile file, ObjectFile::Make(into, kOwner));
  std::vector<std::byte> buffer(std::min<uint64_t>(ShardStream::kBufferBytes, stored.bytes));
  for (uint64_t at = 0; at < stored.bytes; at += buffer.size()) {
    const auto piece =
        std::span(buffer).first(std::min<uint64_t>(buffer.size(), stored.bytes - at));
    HZ_RETURN_IF_ERROR(ReadWholeAt(source.get(), at, piece, from.PathOf(stored.name)));
    HZ_RETURN_IF_ERROR(file.Write(piece));
    Advance(piece.size());
  }
  summary_.written_bytes += stored.bytes;
  HZ_RETURN_IF_ERROR(file.Sync());
  return file.Name(name);
}

Result<ObjectLayout> ExportFolder::AddFile(
    std::span<const Shard> shards, bool with_crc32,
    const std::function<ObjectLayout(std::span<const ShardToLay>)>& lay_out, const ReadShard& read,
    const Folder& into, const std::string& name) {
  std::vector<ShardSums> sums;
  std::vector<ShardToLay> to_lay;
  for (size_t i = 0; i < shards.size(); ++i) {
    HZ_ASSIGN_OR_RETURN(const ShardSums one, stream_.Sum(read, i, BytesOf(shards[i]), with_crc32));
    sums.push_back(one);
    to_lay.push_back({&shards[i], one.crc32});
  }
  ObjectLayout layout = lay_out(to_lay);
  HZ_ASSIGN_OR_RETURN(ObjectFile file, ObjectFile::Make(into, kOwner));
  const Status written = stream_.Run(layout, sums, read, [&](std::span<const std::byte> bytes) {
    Advance(bytes.size());
    return file.Write(bytes);
  });
  HZ_RETURN_IF_ERROR(written);
  HZ_RETURN_IF_ERROR(file.Sync());
  HZ_RETURN_IF_ERROR(file.Name(name));
  ++summary_.files;
  summary_.written_bytes += layout.bytes;
  return layout;
}

Status ExportFolder::AddText(const std::string& text, const Folder& into, const std::string& name) {
  HZ_RETURN_IF_ERROR(WriteDurably(into, name, text).status());
  ++summary_.files;
  summary_.written_bytes += text.size();
  Advance(text.size());
  return Status::Ok();
}

Status ExportFolder::Finish() {
  HZ_RETURN_IF_ERROR(SyncFolder(folder_));
  // A folder that came meanwhile stays: it is somebody's.
  if (renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, options_.target.c_str(),
                RENAME_NOREPLACE) != 0) {
    if (errno == EEXIST) return Refuse(options_.target);
    const bool is_unknown = errno == EINVAL || errno == ENOSYS;
    if (!is_unknown || rename(temporary_.c_str(), options_.target.c_str()) != 0) {
      return ErrnoError(errno, "cannot name the folder " + options_.target);
    }
  }
  temporary_.clear();
  return Status::Ok();
}

Result<ExportSummary> Export(StoredCheckpoint* stored, const ExportOptions& options,
                             const Progress& progress) {
  HZ_ASSIGN_OR_RETURN(const std::unique_ptr<ExportFolder> folder,
                      ExportFolder::Make(stored, options, progress));
  switch (options.format) {
    case checkpoint::StoreFormat::kSafetensors:
      HZ_RETURN_IF_ERROR(ExportSafetensors(stored, folder.get()));
      break;
    case checkpoint::StoreFormat::kDcp: HZ_RETURN_IF_ERROR(ExportDcp(stored, folder.get())); break;
    case checkpoint::StoreFormat::kUcp: HZ_RETURN_IF_ERROR(ExportUcp(stored, folder.get())); break;
  }
  HZ_RETURN_IF_ERROR(folder->Finish());
  return std::move(folder->summary());
}

}  // namespace harmonaize::store

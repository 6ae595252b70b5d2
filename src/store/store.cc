#include "src/store/store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <thread>

#include <nlohmann/json.hpp>

#include "src/base/json_text.h"
#include "src/base/random.h"
#include "src/base/write_whole.h"
#include "src/checkpoint/json_fields.h"
#include "src/checkpoint/stored_checkpoint.h"

namespace harmonaize::store {
namespace {

using checkpoint::Folder;

/// Most bytes of the file that says what a store is.
constexpr uint64_t kMostStoreFileBytes = 4096;
/// How often a checkpoint's folder is made that others remove, and the time between in
/// milliseconds: removing one takes as long as its files are many.
constexpr int kJoinTries = 500;
constexpr int kJoinPauseMs = 20;

Status CheckVersion(const Folder& root) {
  HZ_ASSIGN_OR_RETURN(const std::string text,
                      root.ReadFile(checkpoint::kStoreFile, kMostStoreFileBytes));
  const std::string path = root.PathOf(checkpoint::kStoreFile);
  HZ_ASSIGN_OR_RETURN(const nlohmann::json document, checkpoint::ParseObject(text, path));
  checkpoint::JsonFields fields(document, path);
  fields.Count("version", 1, checkpoint::kStoreVersion);
  return fields.status();
}

/// Returns whether a name may lie in a folder that is being made a store, maybe by several at once.
bool IsOfNewStore(const std::string& name) {
  return name == checkpoint::kStoreFile || name == checkpoint::kPoolFolder ||
         name == checkpoint::kStepsFolder || name.starts_with(checkpoint::kTemporaryPrefix) ||
         name == "lost+found";
}

Status MakeStore(const Folder& root) {
  HZ_ASSIGN_OR_RETURN(const std::vector<std::string> names, root.Names());
  const auto foreign = std::find_if_not(names.begin(), names.end(), &IsOfNewStore);
  if (foreign != names.end()) {
    return InvalidArgument(
        "{} is no store of checkpoints and is not empty ('{}'): name a folder that does not exist",
        root.path(), *foreign);
  }
  const std::string text = JsonText(nlohmann::json{{"harmonaize_store", "checkpoints"},
                                                   {"version", checkpoint::kStoreVersion}}) +
                           "\n";
  return WriteDurably(root, checkpoint::kStoreFile, text).status();
}

/// Returns the folder of the pool in which an object lies: its name's first two digits.
std::string PoolFolderOf(const std::string& name) {
  return name.substr(0, 2);
}

Result<OpenCheckpoint> TryToJoin(const Store& store, const checkpoint::CheckpointId& id) {
  OpenCheckpoint joined = {.id = id};
  HZ_ASSIGN_OR_RETURN(joined.folder, store.steps().Make(checkpoint::CheckpointFolderName(id)));
  HZ_ASSIGN_OR_RETURN(joined.lock, checkpoint::ShareCheckpoint(joined.folder, O_RDWR | O_CREAT));
  // Who removed it may have died before the lock's file was gone.
  if (!store.steps().Holds(checkpoint::CheckpointFolderName(id), joined.folder)) {
    return Unavailable("{} was removed", joined.folder.path());
  }
  HZ_ASSIGN_OR_RETURN(joined.objects, joined.folder.Make(checkpoint::kObjectsFolder));
  HZ_RETURN_IF_ERROR(SyncFolder(joined.folder));
  HZ_RETURN_IF_ERROR(SyncFolder(store.steps()));
  return joined;
}

}  // namespace

std::string TemporaryPrefix(std::string_view owner) {
  return fmt::format("{}{}-", checkpoint::kTemporaryPrefix, owner);
}

std::string TemporaryName(std::string_view owner) {
  return fmt::format("{}{:016x}", TemporaryPrefix(owner), RandomNumber());
}

void RemoveFiles(const Folder& folder, std::string_view prefix) {
  const Result<std::vector<std::string>> names = folder.Names();
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (name.starts_with(prefix)) unlinkat(folder.fd(), name.c_str(), 0);
  }
}

Status SyncFolder(const Folder& folder) {
  // Some file systems cannot sync folders, and say so.
  if (fsync(folder.fd()) == 0 || errno == EINVAL || errno == EROFS) return Status::Ok();
  return ErrnoError(errno, "cannot make " + folder.path() + " durable");
}

Result<bool> WriteDurably(const Folder& folder, const std::string& name, const std::string& text) {
  if (folder.BytesOfFile(name).ok()) return false;
  const std::string temporary = TemporaryName(name);
  const FileDescriptor file(openat(folder.fd(), temporary.c_str(),
                                   O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!file.valid()) return ErrnoError(errno, "cannot make a file in " + folder.path());
  Status status = WriteWhole(file.get(), text, folder.PathOf(name));
  if (status.ok() && fsync(file.get()) != 0) {
    status = ErrnoError(errno, "cannot write " + folder.PathOf(name));
  }
  bool is_new = status.ok();
  if (is_new && linkat(folder.fd(), temporary.c_str(), folder.fd(), name.c_str(), 0) != 0) {
    is_new = errno != EEXIST;
    // Where there are no links, the last one who comes wins: all write the same.
    if (is_new && renameat(folder.fd(), temporary.c_str(), folder.fd(), name.c_str()) != 0) {
      status = ErrnoError(errno, "cannot write " + folder.PathOf(name));
    }
  }
  unlinkat(folder.fd(), temporary.c_str(), 0);
  HZ_RETURN_IF_ERROR(status);
  HZ_RETURN_IF_ERROR(SyncFolder(folder));
  return is_new;
}

Result<Store> Store::Open(const std::string& folder) {
  if (mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) {
    return ErrnoError(errno, "cannot make the folder " + folder);
  }
  Store store;
  HZ_ASSIGN_OR_RETURN(store.root_, Folder::OpenAt(folder));
  Status version = CheckVersion(store.root_);
  if (version.code() == Code::kUnavailable) {
    HZ_RETURN_IF_ERROR(MakeStore(store.root_));
    version = CheckVersion(store.root_);
  }
  HZ_RETURN_IF_ERROR(version);
  HZ_ASSIGN_OR_RETURN(store.pool_, store.root_.Make(checkpoint::kPoolFolder));
  HZ_ASSIGN_OR_RETURN(store.steps_, store.root_.Make(checkpoint::kStepsFolder));
  HZ_RETURN_IF_ERROR(SyncFolder(store.root_));
  return store;
}

bool Store::LinkFromPool(const std::string& name, uint64_t bytes, const Folder& objects) const {
  const Result<Folder> folder = pool_.Open(PoolFolderOf(name));
  if (!folder.ok()) return false;
  const bool is_linked =
      linkat(folder->fd(), name.c_str(), objects.fd(), name.c_str(), 0) == 0 || errno == EEXIST;
  if (!is_linked) return false;
  const Result<uint64_t> found = objects.BytesOfFile(name);
  if (found.ok() && *found == bytes) return true;
  // Somebody has shortened or replaced it.
  unlinkat(objects.fd(), name.c_str(), 0);
  unlinkat(folder->fd(), name.c_str(), 0);
  return false;
}

void Store::LinkIntoPool(const std::string& name, const Folder& objects) const {
  const Result<Folder> folder = pool_.Make(PoolFolderOf(name));
  if (!folder.ok()) return;
  // It fails where the pool has the object, and where there are no links; neither matters.
  [[maybe_unused]] const int result =
      linkat(objects.fd(), name.c_str(), folder->fd(), name.c_str(), 0);
}

void Store::RemoveUnused(const std::string& name) const {
  const Result<Folder> folder = pool_.Open(PoolFolderOf(name));
  if (!folder.ok()) return;
  struct stat state {};
  if (fstatat(folder->fd(), name.c_str(), &state, AT_SYMLINK_NOFOLLOW) != 0) return;
  // Whoever links it just now keeps what it has linked; the pool alone loses it.
  if (state.st_nlink == 1) unlinkat(folder->fd(), name.c_str(), 0);
}

Status Store::RemoveAllUnused() const {
  HZ_ASSIGN_OR_RETURN(const std::vector<std::string> folders, pool_.Names());
  for (const std::string& digits : folders) {
    const Result<Folder> folder = pool_.Open(digits);
    if (!folder.ok()) continue;
    HZ_ASSIGN_OR_RETURN(const std::vector<std::string> names, folder->Names());
    for (const std::string& name : names) {
      if (checkpoint::IsObjectName(name) && PoolFolderOf(name) == digits) RemoveUnused(name);
    }
  }
  return Status::Ok();
}

Result<OpenCheckpoint> OpenCheckpoint::Join(const Store& store,
                                            const checkpoint::CheckpointId& id) {
  Result<OpenCheckpoint> joined = TryToJoin(store, id);
  for (int i = 0; i < kJoinTries && joined.status().code() == Code::kUnavailable; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(kJoinPauseMs));
    joined = TryToJoin(store, id);
  }
  return joined;
}

}  // namespace harmonaize::store

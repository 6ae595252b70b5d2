#include "src/store/retention.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "src/base/random.h"
#include "src/checkpoint/stored_checkpoint.h"
#include "src/store/commit.h"

namespace harmonaize::store {
namespace {

using checkpoint::Folder;

/// A folder that is not committed is given up once nothing has changed in it for so many seconds,
/// and nobody has its lock: the slowest rank has begun its part long before.
constexpr time_t kAbandonedSeconds = 10 * 60;
/// The same where the file system has no locks: longer than a writer goes on without its rank.
constexpr time_t kAbandonedWithoutLocksSeconds = 2 * 24 * 60 * 60;

/// Returns when a folder or its objects last changed, as the file system has it.
time_t LastChange(const Folder& checkpoint) {
  struct stat state {};
  time_t last = 0;
  if (fstat(checkpoint.fd(), &state) == 0) last = state.st_mtime;
  const Result<Folder> objects = checkpoint.Open(checkpoint::kObjectsFolder);
  if (objects.ok() && fstat(objects->fd(), &state) == 0) last = std::max(last, state.st_mtime);
  return last;
}

/// Returns the time of the file system, which may be another host's.
Result<time_t> TimeOfFiles(const Store& store) {
  const int root = store.root().fd();
  struct stat state {};
  if (utimensat(root, checkpoint::kStoreFile, nullptr, AT_SYMLINK_NOFOLLOW) != 0 ||
      fstatat(root, checkpoint::kStoreFile, &state, AT_SYMLINK_NOFOLLOW) != 0) {
    return ErrnoError(errno, "cannot touch " + store.root().PathOf(checkpoint::kStoreFile));
  }
  return state.st_mtime;
}

/// The lock of a checkpoint's folder, held by one process alone.
struct SoleLock {
  FileDescriptor file;
  bool is_held = false;       ///< Nobody else is at the folder.
  bool has_no_locks = false;  ///< Nobody can know.
};

SoleLock LockAlone(const Folder& checkpoint) {
  SoleLock lock;
  lock.file = FileDescriptor(openat(checkpoint.fd(), checkpoint::kLockFile,
                                    O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666));
  if (!lock.file.valid()) return lock;
  lock.is_held = flock(lock.file.get(), LOCK_EX | LOCK_NB) == 0;
  lock.has_no_locks = !lock.is_held && errno != EWOULDBLOCK && errno != EINTR;
  return lock;
}

/// Removes the files of a folder of this store, and its folders. Requires: nobody uses it.
void Empty(const Store& store, const Folder& folder, bool are_objects) {
  const Result<std::vector<std::string>> names = folder.Names();
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    const bool is_folder = unlinkat(folder.fd(), name.c_str(), 0) != 0 && errno == EISDIR;
    if (is_folder && !are_objects) {
      if (const Result<Folder> below = folder.Open(name); below.ok()) Empty(store, *below, true);
      unlinkat(folder.fd(), name.c_str(), AT_REMOVEDIR);
    }
    if (are_objects && checkpoint::IsObjectName(name)) store.RemoveUnused(name);
  }
}

void RemoveFolder(const Store& store, const std::string& name) {
  const Result<Folder> folder = store.steps().Open(name);
  if (folder.ok()) Empty(store, *folder, false);
  unlinkat(store.steps().fd(), name.c_str(), AT_REMOVEDIR);
}

/// Removes a checkpoint, unless its name stands for another folder by now. It loses its name first,
/// so that at no moment there is a committed one that is not whole. Requires: the caller holds its
/// lock alone.
Status RemoveCheckpoint(const Store& store, const std::string& name, const Folder& folder) {
  if (!store.steps().Holds(name, folder)) return Status::Ok();
  const std::string removed =
      fmt::format("{}{}-{:016x}", checkpoint::kRemovedPrefix, name, RandomNumber());
  const int steps = store.steps().fd();
  if (renameat(steps, name.c_str(), steps, removed.c_str()) != 0) {
    if (errno == ENOENT) return Status::Ok();
    return ErrnoError(errno, "cannot remove " + store.steps().PathOf(name));
  }
  HZ_RETURN_IF_ERROR(SyncFolder(store.steps()));
  RemoveFolder(store, removed);
  return Status::Ok();
}

/// Removes a checkpoint's folder that is not committed, unless somebody is at it.
Status RemoveIfUnused(const Store& store, const std::string& name, time_t unchanged_since) {
  const Result<Folder> folder = store.steps().Open(name);
  if (!folder.ok()) return Status::Ok();
  const time_t last_change = LastChange(*folder);
  const SoleLock lock = LockAlone(*folder);
  const time_t patience = kAbandonedWithoutLocksSeconds - kAbandonedSeconds;
  // Its last writer may have committed it just now.
  if (folder->BytesOfFile(checkpoint::kCommitFile).ok()) return Status::Ok();
  const bool is_abandoned = lock.has_no_locks ? last_change <= unchanged_since - patience
                                              : lock.is_held && last_change <= unchanged_since;
  return is_abandoned ? RemoveCheckpoint(store, name, *folder) : Status::Ok();
}

/// Returns whether a writer that died has left something in a checkpoint's folder, or one that
/// lives is about to name it.
bool HasTemporaries(const Folder& folder) {
  const Result<std::vector<std::string>> names = folder.Names();
  return names.ok() && std::any_of(names->begin(), names->end(), [](const std::string& name) {
           return name.starts_with(checkpoint::kTemporaryPrefix);
         });
}

/// Removes a committed checkpoint, unless somebody is at it. Returns whether it is gone.
Result<bool> RemoveCommitted(const Store& store, const std::string& name) {
  const Result<Folder> folder = store.steps().Open(name);
  if (!folder.ok()) return true;
  const SoleLock lock = LockAlone(*folder);
  if (!lock.is_held && !lock.has_no_locks) return false;
  HZ_RETURN_IF_ERROR(RemoveCheckpoint(store, name, *folder));
  return true;
}

}  // namespace

Result<uint32_t> RemoveOld(const Store& store, uint32_t keep) {
  HZ_ASSIGN_OR_RETURN(const std::vector<checkpoint::CheckpointSummary> list,
                      checkpoint::ListCheckpointsIn(store.steps()));
  Status status;
  uint32_t stay = 0;
  uint32_t in_use = 0;
  for (const checkpoint::CheckpointSummary& one : list) {
    if (!one.is_committed || one.is_kept || keep == 0 || stay++ < keep) continue;
    const Result<bool> removed = RemoveCommitted(store, checkpoint::CheckpointFolderName(one.id));
    if (status.ok()) status = removed.status();
    if (removed.ok() && !*removed) ++in_use;
  }
  const Status abandoned = RemoveAbandoned(store);
  HZ_RETURN_IF_ERROR(status);
  HZ_RETURN_IF_ERROR(abandoned);
  return in_use;
}

Status RemoveAbandoned(const Store& store) {
  HZ_ASSIGN_OR_RETURN(const time_t now, TimeOfFiles(store));
  HZ_ASSIGN_OR_RETURN(const std::vector<std::string> names, store.steps().Names());
  for (const std::string& name : names) {
    if (name.starts_with(checkpoint::kRemovedPrefix)) {
      RemoveFolder(store, name);
      continue;
    }
    if (!checkpoint::CheckpointIdOf(name).has_value()) continue;
    const Result<Folder> folder = store.steps().Open(name);
    if (!folder.ok()) continue;
    if (!folder->BytesOfFile(checkpoint::kCommitFile).ok()) {
      HZ_RETURN_IF_ERROR(RemoveIfUnused(store, name, now - kAbandonedSeconds));
      continue;
    }
    if (HasTemporaries(*folder) && LockAlone(*folder).is_held) {
      RemoveFiles(*folder, checkpoint::kTemporaryPrefix);
    }
  }
  return Status::Ok();
}

void GiveUp(const Store& store, OpenCheckpoint checkpoint) {
  MarkFailed(checkpoint);
  // Whoever gives up last is alone with the lock.
  if (!checkpoint.lock.valid() || flock(checkpoint.lock.get(), LOCK_EX | LOCK_NB) != 0) return;
  if (checkpoint.folder.BytesOfFile(checkpoint::kCommitFile).ok()) return;
  [[maybe_unused]] const Status removed =
      RemoveCheckpoint(store, checkpoint::CheckpointFolderName(checkpoint.id), checkpoint.folder);
}

}  // namespace harmonaize::store

#include "src/store/object_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "src/store/store.h"

namespace harmonaize::store {
namespace {

/// Bytes after which the kernel is told to begin writing, so that what waits for the disk stays
/// small and the end does not wait for all of it.
constexpr uint64_t kBeginBytes = 32 << 20;
/// Nobody writes to a file that several checkpoints and exports share.
constexpr mode_t kObjectMode = 0444;

}  // namespace

ObjectFile::ObjectFile(const checkpoint::Folder* folder, std::string temporary, FileDescriptor file)
    : folder_(folder), temporary_(std::move(temporary)), file_(std::move(file)) {}

ObjectFile::ObjectFile(ObjectFile&& other) noexcept
    : folder_(other.folder_),
      temporary_(std::exchange(other.temporary_, "")),
      file_(std::move(other.file_)),
      bytes_(other.bytes_),
      begun_(other.begun_) {}

ObjectFile::~ObjectFile() {
  if (!temporary_.empty()) unlinkat(folder_->fd(), temporary_.c_str(), 0);
}

Result<ObjectFile> ObjectFile::Make(const checkpoint::Folder& folder, std::string_view owner) {
  std::string name = TemporaryName(owner);
  FileDescriptor file(openat(folder.fd(), name.c_str(),
                             O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kObjectMode));
  if (!file.valid()) return ErrnoError(errno, "cannot make a file in " + folder.path());
  return ObjectFile(&folder, std::move(name), std::move(file));
}

Status ObjectFile::Write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoError(errno, "cannot write a file in " + folder_->path());
    bytes_ += static_cast<uint64_t>(written);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  if (bytes_ - begun_ >= kBeginBytes) {
    // Advice alone: Sync says whether all has arrived.
    sync_file_range(file_.get(), static_cast<off_t>(begun_), static_cast<off_t>(bytes_ - begun_),
                    SYNC_FILE_RANGE_WRITE);
    begun_ = bytes_;
  }
  return Status::Ok();
}

Status ObjectFile::Sync() {
  if (fsync(file_.get()) != 0) {
    return ErrnoError(errno, "cannot write a file in " + folder_->path());
  }
  posix_fadvise(file_.get(), 0, 0, POSIX_FADV_DONTNEED);
  return Status::Ok();
}

Status ObjectFile::Name(const std::string& name) {
  if (renameat(folder_->fd(), temporary_.c_str(), folder_->fd(), name.c_str()) != 0) {
    return ErrnoError(errno, "cannot name " + folder_->PathOf(name));
  }
  temporary_.clear();
  return Status::Ok();
}

}  // namespace harmonaize::store

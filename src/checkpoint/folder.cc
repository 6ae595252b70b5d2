#include "src/checkpoint/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "src/base/read_whole.h"

namespace harmonaize::checkpoint {
namespace {

/// Returns an error of the kernel; what does not exist has a code of its own.
Status ErrorOf(int error_number, const std::string& what) {
  const Status error = ErrnoError(error_number, what);
  return error_number == ENOENT ? Status(Code::kUnavailable, error.message()) : error;
}

}  // namespace

Result<Folder> Folder::OpenAt(const std::string& path) {
  FileDescriptor fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return ErrorOf(errno, "cannot open the folder " + path);
  return Folder(std::move(fd), path);
}

Result<Folder> Folder::Open(const std::string& name) const {
  FileDescriptor fd(
      openat(fd_.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid()) return ErrorOf(errno, "cannot open the folder " + PathOf(name));
  return Folder(std::move(fd), PathOf(name));
}

Result<Folder> Folder::Make(const std::string& name) const {
  if (mkdirat(fd_.get(), name.c_str(), 0777) != 0 && errno != EEXIST) {
    return ErrnoError(errno, "cannot make the folder " + PathOf(name));
  }
  return Open(name);
}

Result<FileDescriptor> Folder::OpenFile(const std::string& name) const {
  FileDescriptor fd(
      openat(fd_.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd.valid()) return ErrorOf(errno, "cannot open " + PathOf(name));
  struct stat state {};
  if (fstat(fd.get(), &state) != 0 || !S_ISREG(state.st_mode)) {
    return InvalidArgument("{} is no regular file", PathOf(name));
  }
  return fd;
}

Result<std::string> Folder::ReadFile(const std::string& name, uint64_t most_bytes) const {
  HZ_ASSIGN_OR_RETURN(const FileDescriptor fd, OpenFile(name));
  struct stat state {};
  if (fstat(fd.get(), &state) != 0) return ErrnoError(errno, "cannot look at " + PathOf(name));
  const auto bytes = static_cast<uint64_t>(state.st_size);
  if (bytes > most_bytes) {
    return InvalidArgument("{} has {} bytes, more than {}", PathOf(name), bytes, most_bytes);
  }
  std::string text(bytes, '\0');
  HZ_RETURN_IF_ERROR(
      ReadWholeAt(fd.get(), 0, std::as_writable_bytes(std::span(text)), PathOf(name)));
  return text;
}

Result<uint64_t> Folder::BytesOfFile(const std::string& name) const {
  struct stat state {};
  if (fstatat(fd_.get(), name.c_str(), &state, AT_SYMLINK_NOFOLLOW) != 0) {
    return ErrorOf(errno, "cannot look at " + PathOf(name));
  }
  if (!S_ISREG(state.st_mode)) return InvalidArgument("{} is no regular file", PathOf(name));
  return static_cast<uint64_t>(state.st_size);
}

bool Folder::Holds(const std::string& name, const Folder& folder) const {
  struct stat named {};
  struct stat opened {};
  return fstatat(fd_.get(), name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         fstat(folder.fd_.get(), &opened) == 0 && named.st_dev == opened.st_dev &&
         named.st_ino == opened.st_ino;
}

Result<std::vector<std::string>> Folder::Names() const {
  // A descriptor of its own, since reading moves its position.
  FileDescriptor fd(openat(fd_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoError(errno, "cannot open the folder " + path_);
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(fdopendir(fd.get()), &closedir);
  if (entries == nullptr) return ErrnoError(errno, "cannot read the folder " + path_);
  fd.Release();
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* const entry = readdir(entries.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
    errno = 0;
  }
  if (errno != 0) return ErrnoError(errno, "cannot read the folder " + path_);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace harmonaize::checkpoint

#include "daemon/config/private_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "daemon/config/state_directory.h"
#include "src/base/user_numbers.h"
#include "src/base/write_whole.h"

namespace harmonaize::daemon {
namespace {

Status CheckIsPrivate(int fd, const std::string& path, size_t most_bytes) {
  struct stat found {};
  if (fstat(fd, &found) != 0) return ErrnoError(errno, "cannot look at " + path);
  if (!S_ISREG(found.st_mode)) return InvalidUsage("{} is no plain file", path);
  if (!UserNumbers::OfThisProcess().IsSelfOrRoot(found.st_uid)) {
    return InvalidUsage("{} belongs to user {}, neither to this user ({}) nor to root", path,
                        found.st_uid, geteuid());
  }
  if ((found.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return InvalidUsage("others may write to {}; `chmod go-w {}`", path, path);
  }
  if (static_cast<size_t>(found.st_size) > most_bytes) {
    return InvalidUsage("{} has more than {} bytes", path, most_bytes);
  }
  return Status::Ok();
}

Status ForceFolder(const std::string& folder) {
  const FileDescriptor fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoError(errno, "cannot open the folder " + folder);
  if (fsync(fd.get()) != 0) return ErrnoError(errno, "cannot write the folder " + folder);
  return Status::Ok();
}

Status WriteAndRename(int fd, const std::string& temporary, const std::string& path,
                      std::string_view text) {
  // mkostemp makes files of mode 0600.
  HZ_RETURN_IF_ERROR(WriteWhole(fd, text, temporary));
  if (fsync(fd) != 0) return ErrnoError(errno, "cannot write " + temporary);
  if (std::rename(temporary.c_str(), path.c_str()) != 0) {
    return ErrnoError(errno, "cannot replace " + path);
  }
  return Status::Ok();
}

}  // namespace

Result<std::optional<std::string>> ReadPrivateFile(const std::string& path, size_t most_bytes) {
  const FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.valid()) {
    if (errno == ENOENT) return std::optional<std::string>();
    return ErrnoError(errno, "cannot open " + path);
  }
  HZ_RETURN_IF_ERROR(CheckIsPrivate(fd.get(), path, most_bytes));
  std::string text;
  char part[4096];
  while (text.size() <= most_bytes) {
    const ssize_t got = read(fd.get(), part, sizeof part);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoError(errno, "cannot read " + path);
    if (got == 0) return std::optional(std::move(text));
    text.append(part, static_cast<size_t>(got));
  }
  return InvalidUsage("{} has more than {} bytes", path, most_bytes);
}

Status ReplacePrivateFile(const std::string& folder, const std::string& name,
                          std::string_view text) {
  HZ_RETURN_IF_ERROR(MakeStateFolder(folder));
  const std::string path = folder + "/" + name;
  std::string temporary = path + ".XXXXXX";
  const FileDescriptor fd(mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd.valid()) return ErrnoError(errno, "cannot make a file in " + folder);
  const Status written = WriteAndRename(fd.get(), temporary, path, text);
  if (!written.ok()) {
    unlink(temporary.c_str());
    return written;
  }
  return ForceFolder(folder);
}

}  // namespace harmonaize::daemon

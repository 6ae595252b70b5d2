#include "daemon/events/event_log_files.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "daemon/config/state_directory.h"
#include "daemon/events/event_log.h"
#include "src/base/file_descriptor.h"

namespace harmonaize::daemon {
namespace {

constexpr mode_t kOwnersAlone = 0600;
/// Room that a new log needs, in bytes: that of its journal, and of a file of the least size.
constexpr uintmax_t kLeastRoomBytes = kJournalRoomBytes + kLeastLogBytes;
/// What SQLite puts beside a file.
constexpr const char* kJournals[] = {"-wal", "-shm", "-journal"};

std::string SetAsideName(const std::string& path) {
  return path + ".damaged";
}

void RemoveJournals(const std::string& path) {
  for (const char* const ending : kJournals) unlink((path + ending).c_str());
}

Status MakeFolder(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code failure;
  const bool made = fs::create_directories(folder, failure);
  if (failure) return SystemError("cannot make the folder {}: {}", folder, failure.message());
  if (!made) return Status::Ok();
  fs::permissions(folder, fs::perms::owner_all, failure);
  if (failure) return SystemError("cannot close the folder {}: {}", folder, failure.message());
  return Status::Ok();
}

/// Makes the file, which must not be there. No descriptor of a file that SQLite has open may be
/// closed here: that would end SQLite's locks on it, as POSIX wants it.
Status MakeFile(const std::string& path) {
  RemoveJournals(path);
  const FileDescriptor file(
      open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kOwnersAlone));
  if (!file.valid()) return ErrnoError(errno, "cannot make " + path);
  // The umask may have taken bits away.
  if (fchmod(file.get(), kOwnersAlone) == 0) return Status::Ok();
  return ErrnoError(errno, "cannot set the access bits of " + path);
}

/// Checks a file that SQLite will open, and takes away others' access.
Status CheckFile(const std::string& path, const struct stat& found) {
  if (!S_ISREG(found.st_mode)) return SystemError("{} is not a regular file; remove it", path);
  if ((found.st_mode & ALLPERMS) == kOwnersAlone) return Status::Ok();
  if (chmod(path.c_str(), kOwnersAlone) == 0) return Status::Ok();
  return ErrnoError(errno, "cannot set the access bits of " + path);
}

Status CheckJournals(const std::string& path) {
  for (const char* const ending : kJournals) {
    const std::string journal = path + ending;
    struct stat found {};
    if (lstat(journal.c_str(), &found) == 0) HZ_RETURN_IF_ERROR(CheckFile(journal, found));
  }
  return Status::Ok();
}

}  // namespace

Status PrepareLogFile(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  HZ_RETURN_IF_ERROR(MakeFolder(folder));
  if (const Status closed = CheckStateFolder(folder); !closed.ok()) {
    return SystemError("{}", closed.message());
  }
  struct stat found {};
  if (lstat(path.c_str(), &found) != 0) {
    if (errno == ENOENT) return MakeFile(path);
    return ErrnoError(errno, "cannot look at " + path);
  }
  HZ_RETURN_IF_ERROR(CheckFile(path, found));
  return CheckJournals(path);
}

void ReserveLogJournal(const std::string& path) {
  const FileDescriptor journal(
      open((path + "-wal").c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  // Without the room a full disk makes the log refuse events that it could else have kept.
  if (journal.valid()) (void)posix_fallocate(journal.get(), 0, kJournalRoomBytes);
}

Status SetLogFileAside(const std::string& path) {
  if (std::rename(path.c_str(), SetAsideName(path).c_str()) != 0 && errno != ENOENT) {
    return ErrnoError(errno, "cannot set " + path + " aside");
  }
  RemoveJournals(path);
  return Status::Ok();
}

bool HasNoRoomForLog(const std::string& path) {
  std::error_code failure;
  const std::filesystem::space_info space =
      std::filesystem::space(std::filesystem::path(path).parent_path(), failure);
  return !failure && space.available < kLeastRoomBytes;
}

bool RemoveLogFileSetAside(const std::string& path) {
  return unlink(SetAsideName(path).c_str()) == 0;
}

}  // namespace harmonaize::daemon

#include "daemon/config/state_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <thread>

#include "daemon/config/state_directory.h"
#include "src/base/clean_text.h"
#include "src/base/write_whole.h"

namespace harmonaize::daemon {
namespace {

constexpr char kLockFile[] = "/daemon.lock";
/// Longest time to wait for the lock. A daemon that was killed may have left a process behind that
/// is about to end (RefusedConnections), and that holds what was open in the daemon.
constexpr std::chrono::milliseconds kPatience{1000};
/// Pause between two attempts: short beside the start of a daemon, which measures its host.
constexpr std::chrono::milliseconds kPause{20};
/// Longest text that a holder leaves: a process's number, and a path with PATH_MAX.
constexpr size_t kMostHolderBytes = 4200;

/// Returns what the holder says of itself; "" if it has said nothing yet.
std::string HolderIn(int fd) {
  std::string text(kMostHolderBytes, '\0');
  const ssize_t got = pread(fd, text.data(), text.size(), 0);
  text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  return CleanText(text, text.size());
}

bool TryToLock(int fd) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return false;
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

}  // namespace

Result<FileDescriptor> LockState(const std::string& folder, const std::string& socket_path) {
  if (folder.empty() || !MakeStateFolder(folder).ok()) return FileDescriptor();
  const std::string path = folder + kLockFile;
  FileDescriptor fd(open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return FileDescriptor();
  if (!TryToLock(fd.get())) {
    const std::string holder = HolderIn(fd.get());
    return InvalidUsage(
        "the state directory {} belongs to another daemon{}; stop that one first, or give this one "
        "a folder of its own as state.path",
        folder, holder.empty() ? "" : ", " + holder);
  }
  // What an earlier holder said is replaced. Without these words the lock holds all the same.
  if (ftruncate(fd.get(), 0) == 0) {
    static_cast<void>(WriteWhole(
        fd.get(), fmt::format("process {}, which listens at {}", getpid(), socket_path), path));
  }
  return fd;
}

}  // namespace harmonaize::daemon

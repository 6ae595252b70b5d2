#include "src/ipc/socket_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "src/base/user_numbers.h"
#include "src/ipc/socket_path.h"

namespace harmonaize {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWayOut =
    "have it removed, or give the daemon and its clients another socket with HARMONAIZE_SOCKET";

fs::path FolderOf(const std::string& path) {
  std::error_code failure;
  const fs::path whole = fs::absolute(path, failure);
  return (failure ? fs::path(path) : whole).lexically_normal().parent_path();
}

bool LiesBelow(const fs::path& folder, const fs::path& base) {
  const fs::path way = folder.lexically_relative(base);
  return !way.empty() && *way.begin() != ".." && *way.begin() != ".";
}

/// Returns the folder above `folder` in which strangers may make others; "" where there is none.
fs::path SharedFolderAbove(const fs::path& folder) {
  if (LiesBelow(folder, "/tmp")) return "/tmp";
  const std::string runtime_folder = RuntimeFolder();
  if (runtime_folder.empty()) return {};
  // A slash at the end would count as a name of its own.
  const fs::path base = fs::path(runtime_folder + "/").lexically_normal().parent_path();
  return LiesBelow(folder, base) ? base : fs::path();
}

Status CheckOne(const fs::path& folder) {
  struct stat found {};
  if (lstat(folder.c_str(), &found) != 0) {
    if (errno == ENOENT) return Status::Ok();
    return ErrnoError(errno, "cannot look at the folder " + folder.string());
  }
  if (!S_ISDIR(found.st_mode)) {
    return InvalidUsage("{} is {}, not a folder; {}", folder.string(),
                        S_ISLNK(found.st_mode) ? "a symbolic link" : "a file", kWayOut);
  }
  if (!UserNumbers::OfThisProcess().IsSelfOrRoot(found.st_uid)) {
    return InvalidUsage(
        "the folder {} belongs to user {}, neither to this user ({}) nor to root; {}",
        folder.string(), found.st_uid, geteuid(), kWayOut);
  }
  const bool own = folder == fs::path(OwnTemporaryFolder());
  if (own && (found.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return InvalidUsage("others may enter the folder {} (its mode is {:04o}); `chmod 700 {}`",
                        folder.string(), found.st_mode & 07777, folder.string());
  }
  if ((found.st_mode & S_IWOTH) != 0 && (found.st_mode & S_ISVTX) == 0) {
    return InvalidUsage("everybody may write to the folder {}; `chmod o-w {}`", folder.string(),
                        folder.string());
  }
  return Status::Ok();
}

/// Calls `visit` with each folder from below `base` down to `folder`, until one fails.
template <typename Visit>
Status OnTheWay(const fs::path& base, const fs::path& folder, const Visit& visit) {
  fs::path at = base;
  for (const fs::path& name : folder.lexically_relative(base)) {
    at /= name;
    HZ_RETURN_IF_ERROR(visit(at));
  }
  return Status::Ok();
}

Status MakeAll(const fs::path& folder) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (!failure) return Status::Ok();
  return SystemError("cannot make the folder {}: {}", folder.string(), failure.message());
}

Status MakeOne(const fs::path& folder) {
  if (mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST) return CheckOne(folder);
  return ErrnoError(errno, "cannot make the folder " + folder.string());
}

}  // namespace

Status CheckSocketFolder(const std::string& path) {
  const fs::path folder = FolderOf(path);
  const fs::path base = SharedFolderAbove(folder);
  if (base.empty()) return Status::Ok();
  return OnTheWay(base, folder, CheckOne);
}

Status MakeSocketFolder(const std::string& path) {
  const fs::path folder = FolderOf(path);
  const fs::path base = SharedFolderAbove(folder);
  if (base.empty()) return MakeAll(folder);
  HZ_RETURN_IF_ERROR(MakeAll(base));
  return OnTheWay(base, folder, MakeOne);
}

}  // namespace harmonaize

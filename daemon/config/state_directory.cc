#include "daemon/config/state_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "src/base/file_descriptor.h"
#include "src/base/user_numbers.h"
#include "src/base/write_whole.h"

namespace harmonaize::daemon {
namespace {

/// Returns the value of an environment variable that names a folder; "" if it is unset, or relative
/// and so not to be heeded.
std::string FolderVariable(const char* name) {
  const char* const value = getenv(name);
  return value != nullptr && value[0] == '/' ? value : "";
}

std::string Home() {
  if (std::string home = FolderVariable("HOME"); !home.empty()) return home;
  const passwd* const entry = getpwuid(geteuid());
  return entry != nullptr && entry->pw_dir != nullptr ? entry->pw_dir : "";
}

}  // namespace

std::string DefaultStateDirectory() {
  // systemd separates several folders with colons; the unit asks for one.
  if (std::string given = FolderVariable("STATE_DIRECTORY"); !given.empty()) {
    return given.substr(0, given.find(':'));
  }
  if (geteuid() == 0) return "/var/lib/harmonaize";
  if (const std::string state = FolderVariable("XDG_STATE_HOME"); !state.empty()) {
    return state + "/harmonaize";
  }
  const std::string home = Home();
  return home.empty() ? "" : home + "/.local/state/harmonaize";
}

Status CheckStateFolder(const std::string& folder) {
  struct stat found {};
  if (stat(folder.c_str(), &found) != 0) {
    if (errno == ENOENT) return Status::Ok();
    return ErrnoError(errno, "cannot look at the folder " + folder);
  }
  if (!UserNumbers::OfThisProcess().IsSelfOrRoot(found.st_uid)) {
    return InvalidUsage("the folder {} belongs to user {}, neither to this user ({}) nor to root",
                        folder, found.st_uid, geteuid());
  }
  if ((found.st_mode & S_IWOTH) != 0) {
    return InvalidUsage("everybody may write to the folder {}; `chmod o-w {}`", folder, folder);
  }
  return Status::Ok();
}

Status MakeStateFolder(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code failure;
  const bool made = fs::create_directories(folder, failure);
  if (failure) return SystemError("cannot make the folder {}: {}", folder, failure.message());
  if (made) {
    fs::permissions(folder, fs::perms::group_write | fs::perms::others_write,
                    fs::perm_options::remove, failure);
    if (failure) return SystemError("cannot close the folder {}: {}", folder, failure.message());
  }
  return CheckStateFolder(folder);
}

Status ReplaceStateFile(const std::string& folder, const std::string& name, std::string_view text) {
  HZ_RETURN_IF_ERROR(MakeStateFolder(folder));
  const std::string path = folder + "/" + name;
  std::string temporary = path + ".XXXXXX";
  const FileDescriptor fd(mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd.valid()) return ErrnoError(errno, "cannot make a file in " + folder);
  Status status = WriteWhole(fd.get(), text, temporary);
  // Others may read the file: it holds no secret.
  if (status.ok() && fchmod(fd.get(), 0644) != 0) {
    status = ErrnoError(errno, "cannot set the access bits of " + temporary);
  }
  if (status.ok() && std::rename(temporary.c_str(), path.c_str()) != 0) {
    status = ErrnoError(errno, "cannot replace " + path);
  }
  if (!status.ok()) unlink(temporary.c_str());
  return status;
}

}  // namespace harmonaize::daemon

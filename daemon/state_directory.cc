#include "daemon/state_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "src/base/file_descriptor.h"

namespace harmonaize::daemon {
namespace {

/// The value of a variable that names a folder; "" when it is unset, or relative and so not to be
/// heeded.
std::string FolderVariable(const char* name) {
  const char* const value = getenv(name);
  return value != nullptr && value[0] == '/' ? value : "";
}

std::string Home() {
  if (std::string home = FolderVariable("HOME"); !home.empty()) return home;
  const passwd* const entry = getpwuid(geteuid());
  return entry != nullptr && entry->pw_dir != nullptr ? entry->pw_dir : "";
}

Status WriteAll(int fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoError(errno, "cannot write " + path);
    text.remove_prefix(static_cast<size_t>(written));
  }
  return Status::Ok();
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

Status ReplaceStateFile(const std::string& folder, const std::string& name, std::string_view text) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) return SystemError("cannot make the folder {}: {}", folder, failure.message());
  const std::string path = folder + "/" + name;
  std::string temporary = path + ".XXXXXX";
  const FileDescriptor fd(mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd.valid()) return ErrnoError(errno, "cannot make a file in " + folder);
  Status status = WriteAll(fd.get(), text, temporary);
  // For others to read: it is nobody's secret.
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

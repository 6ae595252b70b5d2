#include "cli/dashboard/browser.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "src/base/file_descriptor.h"
#include "src/base/write_whole.h"

extern char** environ;

namespace harmonaize {
namespace {

bool HasText(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

std::string FolderForFiles() {
  for (const char* const variable : {"XDG_RUNTIME_DIR", "TMPDIR"}) {
    if (HasText(variable)) return std::getenv(variable);
  }
  return "/tmp";
}

}  // namespace

Result<BrowserFile> BrowserFile::Write(const std::string& link) {
  constexpr int kSuffix = 5;  // ".html"
  std::string path = FolderForFiles() + "/harmonaize-dashboard-XXXXXX.html";
  // mkostemps makes a new file that its owner alone can read.
  const FileDescriptor fd(::mkostemps(path.data(), kSuffix, O_CLOEXEC));
  if (!fd.valid()) return ErrnoError(errno, "cannot make a file for the browser at " + path);
  BrowserFile file(std::move(path));
  const std::string page = fmt::format(
      "<!doctype html><meta charset=\"utf-8\"><title>Harmonaize</title>"
      "<meta name=\"referrer\" content=\"no-referrer\">"
      "<meta http-equiv=\"refresh\" content=\"0;url={0}\">"
      "<a href=\"{0}\">Open the status page</a>\n",
      link);
  HZ_RETURN_IF_ERROR(WriteWhole(fd.get(), page, file.path()));
  return file;
}

BrowserFile::BrowserFile(BrowserFile&& other) noexcept : path_(std::exchange(other.path_, {})) {}

BrowserFile& BrowserFile::operator=(BrowserFile&& other) noexcept {
  if (this != &other) {
    if (!path_.empty()) ::unlink(path_.c_str());
    path_ = std::exchange(other.path_, {});
  }
  return *this;
}

BrowserFile::~BrowserFile() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

bool HasDisplay() {
  return HasText("DISPLAY") || HasText("WAYLAND_DISPLAY");
}

Status OpenInBrowser(const std::string& path) {
  const std::string words[] = {"xdg-open", path};
  char* const arguments[] = {const_cast<char*>(words[0].c_str()),
                             const_cast<char*>(words[1].c_str()), nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  // The browser's own messages would disturb this terminal.
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    ::posix_spawn_file_actions_addopen(&actions, stream, "/dev/null", O_RDWR, 0);
  }
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  // A group of its own: Ctrl-C ends the dashboard, not a browser that was started with it.
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t process = 0;
  const int error =
      ::posix_spawnp(&process, arguments[0], &actions, &attributes, arguments, environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return ErrnoError(error, "cannot start xdg-open");
  return Status::Ok();
}

}  // namespace harmonaize

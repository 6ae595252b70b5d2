#include "cli/run/job_guard.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace harmonaize {
namespace {

// First letters of the launcher's messages, which have a letter, a value and a zero byte.
constexpr char kGroup = 'g';
constexpr char kFolder = 'f';
constexpr char kDone = 'd';

std::string ReadToEnd(int fd) {
  std::string text;
  char buffer[512];
  for (;;) {
    const ssize_t got = ::read(fd, buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(buffer, static_cast<size_t>(got));
  }
}

void CleanUp(std::string_view text, const std::function<void()>& last_act) {
  std::vector<std::string> folders;
  while (!text.empty()) {
    const size_t end = text.find('\0');
    if (end == std::string_view::npos) break;
    const char kind = text[0];
    const std::string value(text.substr(1, end - 1));
    text.remove_prefix(end + 1);
    if (kind == kDone) return;
    if (kind == kFolder) folders.push_back(value);
    if (kind == kGroup) ::kill(-std::atoi(value.c_str()), SIGKILL);
  }
  if (last_act) last_act();
  std::error_code ignored;
  for (const std::string& folder : folders) std::filesystem::remove_all(folder, ignored);
}

[[noreturn]] void Guard(int line, const std::function<void()>& last_act) {
  ::setsid();
  ::prctl(PR_SET_NAME, "harmonaize-grd");
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  // A guard that held the launcher's output open would keep its reader waiting.
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, fd);
  CleanUp(ReadToEnd(line), last_act);
  ::_exit(0);
}

}  // namespace

Result<JobGuard> JobGuard::Start(const std::function<void()>& last_act) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return ErrnoError(errno, "cannot make a pipe");
  FileDescriptor reader(ends[0]);
  JobGuard guard;
  guard.line_ = FileDescriptor(ends[1]);
  guard.pid_ = ::fork();
  if (guard.pid_ < 0) return ErrnoError(errno, "cannot fork");
  if (guard.pid_ == 0) {
    guard.line_.Reset();
    Guard(reader.get(), last_act);
  }
  return guard;
}

JobGuard::JobGuard(JobGuard&& other) noexcept
    : line_(std::move(other.line_)), pid_(std::exchange(other.pid_, -1)) {}

JobGuard::~JobGuard() {
  if (pid_ <= 0) return;
  Send(kDone, "");
  line_.Reset();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void JobGuard::WatchGroup(pid_t group) {
  Send(kGroup, std::to_string(group));
}

void JobGuard::WatchFolder(const std::string& path) {
  Send(kFolder, path);
}

void JobGuard::Send(char kind, const std::string& value) {
  std::string message(1, kind);
  message.append(value).push_back('\0');
  // The message is shorter than PIPE_BUF and the pipe is empty, so it is written whole or not at
  // all. A guard that is gone is no reason to stop the job.
  [[maybe_unused]] const ssize_t written = ::write(line_.get(), message.data(), message.size());
}

}  // namespace harmonaize

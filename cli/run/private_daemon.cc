#include "cli/run/private_daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "cli/run/environment.h"
#include "src/ipc/socket_folder.h"

namespace harmonaize {
namespace {

using Clock = std::chrono::steady_clock;

// Longest TMPDIR that is used: a socket's path has 108 bytes at most, and a deeper one leaves no
// room for our names.
constexpr size_t kLongestParent = 60;

Result<FileDescriptor> MakeNotifySocket(const std::string& path) {
  FileDescriptor fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return ErrnoError(errno, "cannot make a socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(),
              std::min(path.size() + 1, sizeof(address.sun_path) - 1));
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return ErrnoError(errno, "cannot bind " + path);
  }
  return fd;
}

bool SaysReady(int fd) {
  char buffer[4096];
  const ssize_t got = ::recv(fd, buffer, sizeof(buffer), 0);
  if (got <= 0) return false;
  const std::string text = "\n" + std::string(buffer, static_cast<size_t>(got)) + "\n";
  return text.find("\nREADY=1\n") != std::string::npos;
}

// Returns the output of a daemon that did not come up; it has ended, or is about to.
std::string LastWords(ChildProcess& process) {
  std::string text;
  const int fd = process.standard_error().get();
  pollfd readable{.fd = fd, .events = POLLIN, .revents = 0};
  while (text.size() < 4096 && ::poll(&readable, 1, 100) > 0) {
    char buffer[1024];
    const ssize_t got = ::read(fd, buffer, sizeof(buffer));
    if (got <= 0) break;
    text.append(buffer, static_cast<size_t>(got));
  }
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.empty() ? "" : ":\n" + text;
}

}  // namespace

Result<TemporaryFolder> TemporaryFolder::Make() {
  const char* wanted = ::getenv("TMPDIR");
  std::string parent = wanted == nullptr || *wanted == '\0' ? "/tmp" : wanted;
  // Nor may the parent be a folder where a stranger could replace ours.
  const bool fits = parent.size() <= kLongestParent && CheckSocketFolder(parent + "/socket").ok();
  if (!fits) parent = "/tmp";
  std::string path = parent + "/harmonaize-run-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) {
    return ErrnoError(errno, "cannot make a folder in " + parent);
  }
  TemporaryFolder folder;
  folder.path_ = path;
  return folder;
}

TemporaryFolder::TemporaryFolder(TemporaryFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})) {}

TemporaryFolder& TemporaryFolder::operator=(TemporaryFolder&& other) noexcept {
  std::swap(path_, other.path_);
  return *this;
}

TemporaryFolder::~TemporaryFolder() {
  if (path_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Result<PrivateDaemon> PrivateDaemon::Start(const Options& options) {
  PrivateDaemon daemon;
  daemon.own_folder_ = options.folder;
  if (options.folder.empty()) {
    HZ_ASSIGN_OR_RETURN(daemon.folder_, TemporaryFolder::Make());
  }
  const std::string notify_path = daemon.folder() + "/notify";
  // A permanent folder may contain that of an earlier daemon.
  ::unlink(notify_path.c_str());
  HZ_ASSIGN_OR_RETURN(FileDescriptor notify, MakeNotifySocket(notify_path));

  Environment environment = Environment::OfThisProcess();
  environment.Set("NOTIFY_SOCKET", notify_path);
  environment.Unset("HARMONAIZE_SOCKET");
  // Its state is removed with the job.
  environment.Set("STATE_DIRECTORY", daemon.folder() + "/state");
  for (const auto& [name, value] : options.variables) environment.Set(name, value);
  ChildSpec spec;
  // The log level keeps messages of a healthy daemon out of the job's output.
  spec.arguments = {options.program, "--socket", daemon.socket_path(), "--log-level",
                    options.log_level};
  spec.arguments.insert(spec.arguments.end(), options.arguments.begin(), options.arguments.end());
  spec.environment = environment.Lines();
  spec.prepare = options.prepare;
  spec.signal_mask = options.signal_mask;
  // A daemon that is asked to end removes its files; the guard kills it if it does not end.
  spec.parent_death_signal = SIGTERM;
  HZ_ASSIGN_OR_RETURN(daemon.process_, ChildProcess::Start(spec));

  HZ_RETURN_IF_ERROR(daemon.WaitUntilReady(notify.get(), options));
  return daemon;
}

Status PrivateDaemon::WaitUntilReady(int notify_fd, const Options& options) {
  const Clock::time_point deadline = Clock::now() + options.ready_within;
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) {
      process_.SignalGroup(SIGKILL);
      return Unavailable("the private daemon {} was not ready within {} s{}", options.program,
                         options.ready_within.count() / 1000.0, LastWords(process_));
    }
    pollfd events[] = {{.fd = notify_fd, .events = POLLIN, .revents = 0},
                       {.fd = process_.pidfd(), .events = POLLIN, .revents = 0},
                       {.fd = options.cancel_fd, .events = POLLIN, .revents = 0}};
    if (::poll(events, 3, static_cast<int>(left.count())) < 0 && errno != EINTR) {
      return ErrnoError(errno, "cannot wait for the private daemon");
    }
    if (events[0].revents != 0 && SaysReady(notify_fd)) return Status::Ok();
    if (events[1].revents != 0) {
      const auto end = process_.PollEnd();
      return Unavailable("the private daemon {} {} before it listened{}", options.program,
                         end ? end->ToString() : "ended", LastWords(process_));
    }
    if (events[2].revents != 0 && options.cancelled()) {
      return Status(Code::kInProgress, "interrupted");
    }
  }
}

PrivateDaemon::~PrivateDaemon() {
  if (process_.pid() > 0) process_.SignalGroup(SIGKILL);
}

Status PrivateDaemon::Stop(std::chrono::milliseconds grace) {
  if (process_.pid() < 0) return Status::Ok();
  process_.SignalGroup(SIGTERM);
  pollfd ended{.fd = process_.pidfd(), .events = POLLIN, .revents = 0};
  if (::poll(&ended, 1, static_cast<int>(grace.count())) <= 0) process_.SignalGroup(SIGKILL);
  process_.Reap();
  const ChildEnd end = process_.PollEnd().value_or(ChildEnd{});
  const std::string words = end.success() ? "" : LastWords(process_);
  process_ = ChildProcess();
  folder_ = TemporaryFolder();
  if (end.success()) return Status::Ok();
  return RemoteError("the private daemon {}{}", end.ToString(), words);
}

}  // namespace harmonaize

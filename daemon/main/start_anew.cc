#include "daemon/main/start_anew.h"

#include <fmt/format.h>
#include <signal.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <string_view>

#include "daemon/runtime/close_elsewhere.h"

namespace harmonaize::daemon {
namespace {

/// The program that runs, also when its file has been replaced or removed.
constexpr const char* kThisProgram = "/proc/self/exe";

/// Returns the environment of the next program, to which `sockets` descriptors from 3 on are
/// passed.
std::vector<std::string> EnvironmentWith(size_t sockets) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!std::string_view(*variable).starts_with("LISTEN_")) variables.emplace_back(*variable);
  }
  if (sockets == 0) return variables;
  variables.push_back(fmt::format("LISTEN_PID={}", getpid()));
  variables.push_back(fmt::format("LISTEN_FDS={}", sockets));
  return variables;
}

}  // namespace

std::string ProgramFile(const char* name) {
  if (name != nullptr && name[0] == '/') return name;
  char path[PATH_MAX] = {};
  return readlink(kThisProgram, path, sizeof path - 1) > 0 ? path : kThisProgram;
}

Status StartAnew(const std::string& program, char** argv,
                 const std::vector<FileDescriptor>& sockets) {
  std::vector<std::string> variables = EnvironmentWith(sockets.size());
  std::vector<char*> environment;
  for (std::string& variable : variables) environment.push_back(variable.data());
  environment.push_back(nullptr);
  CloseAllElsewhere(sockets);
  // A signal that comes from here on ends the process, as one at its next start would.
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(program.c_str(), argv, environment.data());
  const Status failure = ErrnoError(errno, "cannot start " + program + " anew");
  // Nobody takes lines of the log any more.
  std::fprintf(stderr, "harmonaized: %s; the program that was running starts anew\n",
               failure.message().c_str());
  execve(kThisProgram, argv, environment.data());
  return failure;
}

std::vector<FileDescriptor> SocketsPassedOn() {
  const int count = sd_listen_fds(1);
  std::vector<FileDescriptor> sockets;
  for (int i = 0; i < count; ++i) sockets.emplace_back(SD_LISTEN_FDS_START + i);
  return sockets;
}

}  // namespace harmonaize::daemon

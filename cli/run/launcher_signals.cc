#include "cli/run/launcher_signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace harmonaize {

Result<LauncherSignals> LauncherSignals::Take() {
  LauncherSignals signals;
  sigset_t taken;
  ::sigemptyset(&taken);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
    struct sigaction action {};
    // The kernel queues a blocked signal even if it is ignored, and the descriptor would report it.
    if (::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) continue;
    ::sigaddset(&taken, signal);
  }
  signals.fd_ = FileDescriptor(::signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals.fd_.valid()) return ErrnoError(errno, "cannot make a signalfd");
  ::sigaddset(&taken, SIGPIPE);
  if (::sigprocmask(SIG_BLOCK, &taken, &signals.previous_) != 0) {
    return ErrnoError(errno, "cannot block signals");
  }
  return signals;
}

LauncherSignals::LauncherSignals(LauncherSignals&& other) noexcept
    : fd_(std::move(other.fd_)), previous_(other.previous_) {}

LauncherSignals::~LauncherSignals() {
  if (fd_.valid()) ::sigprocmask(SIG_SETMASK, &previous_, nullptr);
}

std::optional<int> LauncherSignals::Next() {
  signalfd_siginfo info{};
  if (::read(fd_.get(), &info, sizeof(info)) != static_cast<ssize_t>(sizeof(info))) return {};
  return static_cast<int>(info.ssi_signo);
}

bool LauncherSignals::EndsJob(int signal) {
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
}

}  // namespace harmonaize

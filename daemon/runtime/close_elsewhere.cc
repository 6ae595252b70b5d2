#include "daemon/runtime/close_elsewhere.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace harmonaize::daemon {
namespace {

constexpr int kFirstBehindStandardError = 3;

[[noreturn]] void WaitToBeKilled() {
  while (true) pause();
}

/// Keeps only these descriptors open, in ascending order, and waits to be killed. Runs in the
/// closing process.
[[noreturn]] void KeepOnly(const std::vector<FileDescriptor>& descriptors) {
  unsigned next = 0;
  for (const FileDescriptor& descriptor : descriptors) {
    const auto kept = static_cast<unsigned>(descriptor.get());
    if (kept > next) close_range(next, kept - 1, 0);
    next = kept + 1;
  }
  close_range(next, ~0u, 0);
  WaitToBeKilled();
}

/// Moves the descriptors to 3, 4 and so on, and returns the first number behind them.
int MoveToFront(std::span<const FileDescriptor> kept) {
  const int end = kFirstBehindStandardError + static_cast<int>(kept.size());
  std::vector<int> out_of_the_way;
  for (const FileDescriptor& one : kept) {
    out_of_the_way.push_back(fcntl(one.get(), F_DUPFD_CLOEXEC, end));
  }
  int next = kFirstBehindStandardError;
  for (const int one : out_of_the_way) dup2(one, next++);
  return end;
}

}  // namespace

void WaitForNoChild() {
  signal(SIGCHLD, SIG_IGN);
}

Status CloseElsewhere(std::vector<FileDescriptor>* descriptors) {
  std::ranges::sort(*descriptors, {}, [](const FileDescriptor& one) { return one.get(); });
  const pid_t closer = fork();
  if (closer == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    KeepOnly(*descriptors);
  }
  if (closer < 0) return ErrnoError(errno, "cannot start a process");
  descriptors->clear();
  kill(closer, SIGKILL);
  return Status::Ok();
}

void CloseAllElsewhere(std::span<const FileDescriptor> kept) {
  const pid_t closer = fork();
  if (closer == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    WaitToBeKilled();
  }
  const int behind = MoveToFront(kept);
  if (closer < 0) return;
  close_range(static_cast<unsigned>(behind), ~0u, 0);
  kill(closer, SIGKILL);
}

}  // namespace harmonaize::daemon

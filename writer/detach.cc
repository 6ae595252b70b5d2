#include "writer/detach.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "src/base/low_priority.h"
#include "src/base/write_whole.h"
#include "src/checkpoint/writer_messages.h"

namespace harmonaize::writer {
namespace {

/// How much sooner than its rank a writer is ended when memory runs out: the part that it writes is
/// lost, and the job goes on.
constexpr char kOutOfMemoryScore[] = "700";

/// Goes on in a child, and ends the process that called.
Status GoOnInChild() {
  const pid_t child = fork();
  if (child < 0) return ErrnoError(errno, "cannot make a process");
  if (child > 0) _exit(0);
  return Status::Ok();
}

void ResetSignals() {
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  // The rank's terminal, and readers that have gone, are no reason to end.
  ::signal(SIGHUP, SIG_IGN);
  ::signal(SIGPIPE, SIG_IGN);
  // A file that grows beyond the user's limit is a failure to be told.
  ::signal(SIGXFSZ, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

/// Opens the log, or /dev/null where none is wanted or it cannot be opened.
int OpenLog() {
  const char* const path = std::getenv("HARMONAIZE_WRITER_LOG");
  if (path != nullptr) {
    const int log = open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NOCTTY, 0600);
    if (log >= 0) return log;
  }
  return open("/dev/null", O_WRONLY);
}

Status RedirectStandardStreams() {
  const int log = OpenLog();
  const int null = open("/dev/null", O_RDWR);
  if (log < 0 || null < 0) return ErrnoError(errno, "cannot open /dev/null");
  const bool are_set = dup2(null, 0) >= 0 && dup2(null, 1) >= 0 && dup2(log, 2) >= 0;
  if (!are_set) return ErrnoError(errno, "cannot redirect the standard streams");
  close_range(checkpoint::kWriterSocket + 1, ~0U, 0);
  return Status::Ok();
}

/// Each of these is worth having, and none is worth failing for.
void GiveWay() {
  TakeLowestPriority();
  const int score = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (score >= 0) {
    [[maybe_unused]] const Status written =
        WriteWhole(score, kOutOfMemoryScore, "/proc/self/oom_score_adj");
    close(score);
  }
}

/// The buffers that it reads are the tenant's model.
void KeepToItself() {
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  prctl(PR_SET_DUMPABLE, 0);
}

}  // namespace

Status Detach() {
  HZ_RETURN_IF_ERROR(GoOnInChild());
  setsid();
  // No leader of a session goes on, so that no terminal becomes its own.
  HZ_RETURN_IF_ERROR(GoOnInChild());
  ResetSignals();
  if (chdir("/") != 0) return ErrnoError(errno, "cannot change to /");
  HZ_RETURN_IF_ERROR(RedirectStandardStreams());
  GiveWay();
  KeepToItself();
  return Status::Ok();
}

}  // namespace harmonaize::writer

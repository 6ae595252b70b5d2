#include "daemon/nats/call_deadline.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <mutex>

#include "src/base/log.h"
#include "src/base/status.h"

namespace harmonaize::daemon {
namespace {

/// Pause between interruptions, in nanoseconds. A signal that comes just before a call blocks is
/// lost on it, so there is always a next one.
constexpr int64_t kPauseNs = 100'000'000;

void InstallHandler() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_handler = [](int) {};
    // Without SA_RESTART, which would let the call go on.
    sigaction(CallDeadline::Interruption(), &action, nullptr);
  });
}

}  // namespace

int CallDeadline::Interruption() {
  return SIGRTMIN + 4;
}

CallDeadline::CallDeadline(int64_t milliseconds) {
  InstallHandler();
  sigset_t interruption;
  sigemptyset(&interruption);
  sigaddset(&interruption, Interruption());
  pthread_sigmask(SIG_UNBLOCK, &interruption, nullptr);
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = Interruption();
  event._sigev_un._tid = gettid();
  if (timer_create(CLOCK_MONOTONIC, &event, &timer_) != 0) {
    // The call may block for longer; that is better than no call.
    Log(LogLevel::kWarning, kLogInit, "{}",
        ErrnoError(errno, "cannot set a deadline for NATS").message());
    return;
  }
  armed_ = true;
  itimerspec times{};
  times.it_value = {.tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1'000'000};
  times.it_interval = {.tv_sec = 0, .tv_nsec = kPauseNs};
  timer_settime(timer_, 0, &times, nullptr);
}

CallDeadline::~CallDeadline() {
  if (armed_) timer_delete(timer_);
}

}  // namespace harmonaize::daemon

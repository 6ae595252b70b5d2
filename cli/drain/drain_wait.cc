#include "cli/drain/drain_wait.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "cli/command_line.h"
#include "cli/drain/drain_view.h"
#include "cli/json_view.h"

namespace harmonaize {
namespace {

using Clock = std::chrono::steady_clock;

/// Pause between two looks at the daemon.
constexpr std::chrono::milliseconds kLookEvery(250);
/// How long a daemon that restarts may be away: it measures nothing and binds its sockets at once,
/// but a service manager may pause before it starts one that failed.
constexpr std::chrono::seconds kBackWithin(60);

/// Says what is waited for, on standard error.
class Progress {
 public:
  ~Progress() { Clear(); }

  void Say(const std::string& what) {
    if (what == said_) return;
    if (!on_terminal_) return Complain(said_ = what);
    Clear();
    std::fputs(what.c_str(), stderr);
    std::fflush(stderr);
    said_ = what;
  }

 private:
  // "\033[K" erases the rest of the line (ECMA-48).
  void Clear() {
    if (on_terminal_ && !said_.empty()) std::fputs("\r\033[K", stderr);
  }

  const bool on_terminal_ = isatty(STDERR_FILENO) == 1;
  std::string said_;
};

Result<Json> LookAtDrain(const DaemonHttp& daemon) {
  return GetDocument(daemon, "/v1/hosts/this/drain");
}

/// Returns what has become of a drain whose daemon has restarted, by what the next one says.
DrainOutcome Restarted(const Json& drain) {
  const uint64_t left = CountAt(drain, "left_at_restart");
  if (left == 0) return {"the daemon has restarted, and serves again\n", true};
  return {fmt::format("the daemon has restarted at the deadline, and serves again; {} that {} left "
                      "ended with it\n",
                      left == 1 ? "1 communicator" : fmt::format("{} communicators", left),
                      left == 1 ? "was" : "were"),
          false};
}

/// Waits until a daemon of another instance answers.
Result<DrainOutcome> AwaitNext(const std::string& instance, const std::string& socket,
                               Progress& progress) {
  const Clock::time_point end = Clock::now() + kBackWithin;
  progress.Say("waiting for the daemon to restart");
  while (Clock::now() < end) {
    const Result<DaemonHttp> found = FindOperatorsHttp(socket);
    const Result<Json> drain = found.ok() ? LookAtDrain(*found) : found.status();
    if (drain.ok() && TextAt(*drain, "instance") != instance) {
      return Restarted(*drain);
    }
    std::this_thread::sleep_for(kLookEvery);
  }
  return Unavailable("the daemon has not come back within {} s; its log says why",
                     kBackWithin.count());
}

}  // namespace

Result<DrainOutcome> AwaitDrain(const DaemonHttp& daemon, const std::string& socket) {
  Progress progress;
  std::string instance;
  while (true) {
    const Result<Json> drain = LookAtDrain(daemon);
    // A daemon that does not answer any more has ended to restart.
    if (!drain.ok() && instance.empty()) return drain.status();
    if (!drain.ok()) return AwaitNext(instance, socket, progress);
    const std::string state = TextAt(*drain, "state");
    const std::string now_at = TextAt(*drain, "instance");
    if (!instance.empty() && now_at != instance) {
      return Restarted(*drain);
    }
    instance = now_at;
    if (state == "serving") return InvalidUsage("the drain was called off");
    if (!YesAt(*drain, "restart") && state == "drained") {
      const bool all_left = CountAt(*drain, "communicators") == 0;
      return DrainOutcome{all_left ? "the daemon is drained\n"
                                   : "the deadline has passed: " + DrainProgress(*drain) + "\n",
                          all_left};
    }
    progress.Say(state == "draining" ? DrainProgress(*drain) : "waiting for the daemon to restart");
    std::this_thread::sleep_for(kLookEvery);
  }
}

}  // namespace harmonaize

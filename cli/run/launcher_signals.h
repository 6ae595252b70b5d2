#pragma once

#include <signal.h>

#include <optional>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"

namespace harmonaize {

/// The signals that a launcher takes over, read from a descriptor instead of handlers: those that
/// end the job, SIGUSR1 and SIGUSR2, which are only passed on, and SIGPIPE, which is ignored.
/// Signals that it was told to ignore (nohup, a shell's background jobs) stay ignored. Restores the
/// old mask on destruction.
class LauncherSignals {
 public:
  static Result<LauncherSignals> Take();
  LauncherSignals() = default;
  LauncherSignals(LauncherSignals&& other) noexcept;
  LauncherSignals& operator=(LauncherSignals&&) = delete;
  ~LauncherSignals();

  int fd() const { return fd_.get(); }
  /// Returns the old mask, with which children start.
  const sigset_t& previous_mask() const { return previous_; }
  /// Returns the next signal that came, or nothing.
  std::optional<int> Next();
  /// Returns whether `signal` asks for the job's end.
  static bool EndsJob(int signal);

 private:
  FileDescriptor fd_;
  sigset_t previous_{};
};

}  // namespace harmonaize

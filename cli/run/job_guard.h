#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"

namespace harmonaize {

/// A small process that outlives a launcher killed with SIGKILL. It then ends the process groups
/// that the launcher had started (the kernel's parent-death signal reaches only the children
/// themselves) and removes the launcher's folders. Thread: one.
class JobGuard {
 public:
  /// Forks. `last_act` is what is left to do behind the groups' end, before the folders go.
  /// Requires: the process has one thread.
  static Result<JobGuard> Start(const std::function<void()>& last_act = {});

  JobGuard() = default;
  JobGuard(JobGuard&& other) noexcept;
  JobGuard& operator=(JobGuard&&) = delete;
  /// Tells the guard that nothing is left to do, and waits for its end.
  ~JobGuard();

  void WatchGroup(pid_t group);
  void WatchFolder(const std::string& path);
  pid_t pid() const { return pid_; }

 private:
  void Send(char kind, const std::string& value);

  FileDescriptor line_;
  pid_t pid_ = -1;
};

}  // namespace harmonaize

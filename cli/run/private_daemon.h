#pragma once

#include <signal.h>

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cli/run/child_process.h"
#include "src/base/file_descriptor.h"
#include "src/base/status.h"

namespace harmonaize {

/// A folder that only this user can enter and that goes, with all in it, when this does.
class TemporaryFolder {
 public:
  static Result<TemporaryFolder> Make();
  TemporaryFolder() = default;
  TemporaryFolder(TemporaryFolder&& other) noexcept;
  TemporaryFolder& operator=(TemporaryFolder&& other) noexcept;
  ~TemporaryFolder();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// A daemon that serves one job and ends with it. Not thread safe.
class PrivateDaemon {
 public:
  struct Options {
    std::string program;
    std::vector<std::string> arguments{};  ///< Beyond those that Start gives it.
    std::string log_level = "warning";
    /// Where it has its socket and its state; "": in a temporary folder, which goes with it.
    std::string folder{};
    std::vector<std::pair<std::string, std::string>> variables{};  ///< For its environment.
    std::function<bool()> prepare{};                               ///< As in ChildSpec.
    std::chrono::milliseconds ready_within{10000};
    sigset_t signal_mask{};
    /// When this becomes readable, `cancelled` tells whether to give up the wait for the daemon;
    /// -1 for never.
    int cancel_fd = -1;
    std::function<bool()> cancelled;
  };

  /// Starts `program --socket FOLDER/harmonaized.sock --log-level LEVEL ARGUMENTS` and waits
  /// until it has told, by the protocol of sd_notify(3), that it listens. kUnavailable, with what
  /// it wrote to standard error, when it ends before that or takes too long; kInProgress when the
  /// wait was given up.
  static Result<PrivateDaemon> Start(const Options& options);

  PrivateDaemon() = default;
  PrivateDaemon(PrivateDaemon&&) = default;
  PrivateDaemon& operator=(PrivateDaemon&&) = default;
  ~PrivateDaemon();

  std::string socket_path() const { return folder() + "/harmonaized.sock"; }
  const std::string& folder() const { return own_folder_.empty() ? folder_.path() : own_folder_; }
  ChildProcess& process() { return process_; }

  /// Asks it to end, ends it when it has not within `grace`, and removes a temporary folder. An
  /// error says how it ended when that was not well, with the end of what it wrote.
  Status Stop(std::chrono::milliseconds grace);

 private:
  Status WaitUntilReady(int notify_fd, const Options& options);

  std::string own_folder_;
  TemporaryFolder folder_;  // outlives the process: the daemon removes its socket there
  ChildProcess process_;
};

}  // namespace harmonaize

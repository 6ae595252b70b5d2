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

/// A folder that only this user can enter; it is removed with its content on destruction.
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

/// A daemon that serves one job and ends with it. Thread: one.
class PrivateDaemon {
 public:
  struct Options {
    std::string program;
    std::vector<std::string> arguments{};  ///< Arguments beyond those that Start passes.
    std::string log_level = "warning";
    /// Folder for its socket and its state; "": a temporary folder, which is removed with it.
    std::string folder{};
    std::vector<std::pair<std::string, std::string>> variables{};  ///< For its environment.
    std::function<bool()> prepare{};                               ///< As in ChildSpec.
    std::chrono::milliseconds ready_within{10000};
    sigset_t signal_mask{};
    /// When this becomes readable, `cancelled` tells whether to stop waiting for the daemon; -1:
    /// never.
    int cancel_fd = -1;
    std::function<bool()> cancelled;
  };

  /// Starts `program --socket FOLDER/harmonaized.sock --log-level LEVEL ARGUMENTS` and waits until
  /// it reports, by the protocol of sd_notify(3), that it listens. Errors: kUnavailable, with its
  /// standard error, when it ends before that or takes too long; kInProgress when the wait was
  /// cancelled.
  static Result<PrivateDaemon> Start(const Options& options);

  PrivateDaemon() = default;
  PrivateDaemon(PrivateDaemon&&) = default;
  PrivateDaemon& operator=(PrivateDaemon&&) = default;
  ~PrivateDaemon();

  std::string socket_path() const { return folder() + "/harmonaized.sock"; }
  const std::string& folder() const { return own_folder_.empty() ? folder_.path() : own_folder_; }
  ChildProcess& process() { return process_; }

  /// Asks it to end, kills it if it has not ended within `grace`, and removes a temporary folder.
  /// Errors: it did not end well; the text has its end and the last of its output.
  Status Stop(std::chrono::milliseconds grace);

 private:
  Status WaitUntilReady(int notify_fd, const Options& options);

  std::string own_folder_;
  TemporaryFolder folder_;  // outlives the process: the daemon removes its socket there
  ChildProcess process_;
};

}  // namespace harmonaize

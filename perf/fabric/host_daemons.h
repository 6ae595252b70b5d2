#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/run/job_guard.h"
#include "cli/run/launcher_signals.h"
#include "cli/run/private_daemon.h"
#include "perf/fabric/laboratory.h"
#include "src/base/status.h"

namespace harmonaize::fabric {

/// Returns the configuration of one host's daemon, as TOML: `text`, which is for all hosts. Where
/// `text` has no value, the costs of messages in a laboratory and the settings of only this host's
/// daemon are added. `fabric`: path of the daemon's fabric file, "": none. `controller`: host of
/// the cluster's controller, or "". Errors: kInvalidArgument where `text` is malformed.
Result<std::string> HostDaemonConfig(const Laboratory& laboratory, int host,
                                     const std::string& text, const std::string& fabric,
                                     const std::string& controller = "");

/// Returns the path of the daemons' fabric file: for "" the laboratory's own file, for "none" none,
/// and for anything else that file. Errors: kInvalidArgument if it is no fabric file, or lacks one
/// of the laboratory's hosts.
Result<std::string> DaemonFabric(const Laboratory& laboratory, const std::string& wanted);

/// Daemons of a laboratory's hosts, each in its host's namespace and with a folder of its own for
/// socket, configuration (provider.toml), state and log (harmonaized.log). Thread: one.
class HostDaemons {
 public:
  struct Options {
    std::string program;
    std::string config;              ///< TOML for all daemons.
    std::string fabric;              ///< Path of DaemonFabric.
    std::string controller;          ///< Host of the controller; "": none.
    std::string log_level = "info";  ///< Level of their logs.
  };

  /// Borrows all three arguments.
  HostDaemons(const Laboratory& laboratory, LauncherSignals& signals, JobGuard& guard)
      : laboratory_(laboratory), signals_(signals), guard_(guard) {}

  /// Starts a daemon at each of these hosts where none listens yet. Started daemons run until Stop,
  /// or this object's end. Errors: kInProgress when a signal came meanwhile, which ended_by()
  /// returns.
  Status Start(const std::vector<int>& hosts, const Options& options);
  std::string SocketOf(int host) const;
  int ended_by() const { return ended_by_; }
  size_t started() const { return daemons_.size(); }

  /// Waits until a signal asks for the end, or no started daemon is left.
  void Wait();

  /// Stops the started daemons; reports every daemon that did not end well.
  Status Stop();

 private:
  Status StartOne(int host, const Options& options);
  std::string FolderOf(int host) const;

  const Laboratory& laboratory_;
  LauncherSignals& signals_;
  JobGuard& guard_;
  std::map<int, PrivateDaemon> daemons_;
  int ended_by_ = 0;
};

}  // namespace harmonaize::fabric

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

/// The configuration of one host's daemon, as TOML: `text`, which is for all hosts, and where it
/// does not say otherwise what messages cost in a laboratory and what only this host's daemon is to
/// know; `fabric`: the path of the fabric file that it is told, "": it knows of none; `controller`:
/// the host of the cluster's controller, or "". kInvalidArgument where `text` is malformed.
Result<std::string> HostDaemonConfig(const Laboratory& laboratory, int host,
                                     const std::string& text, const std::string& fabric,
                                     const std::string& controller = "");

/// That path for what somebody asked for: "" is the laboratory's own file, "none" none, and
/// anything else a file. kInvalidArgument where that is no fabric file, or lacks one of the
/// laboratory's hosts.
Result<std::string> DaemonFabric(const Laboratory& laboratory, const std::string& wanted);

/// Daemons of a laboratory's hosts, each in its host's namespace and with a folder of its own for
/// socket, configuration (provider.toml), state and log (harmonaized.log). Not thread safe.
class HostDaemons {
 public:
  struct Options {
    std::string program;
    std::string config;              ///< TOML for all of them.
    std::string fabric;              ///< As DaemonFabric gives it.
    std::string controller;          ///< The host whose daemon is it; "": none.
    std::string log_level = "info";  ///< Of what they write to their logs.
  };

  /// Borrows all three.
  HostDaemons(const Laboratory& laboratory, LauncherSignals& signals, JobGuard& guard)
      : laboratory_(laboratory), signals_(signals), guard_(guard) {}

  /// Starts a daemon at each of these hosts where none listens yet. kInProgress when a signal came
  /// meanwhile: ended_by() tells which. What was started runs until Stop, or this object's end.
  Status Start(const std::vector<int>& hosts, const Options& options);
  std::string SocketOf(int host) const;
  int ended_by() const { return ended_by_; }
  size_t started() const { return daemons_.size(); }

  /// Waits until a signal asks for the end, or none of the started daemons is left.
  void Wait();

  /// Stops what Start started; tells of every daemon that did not end well.
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

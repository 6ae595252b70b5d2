#include "perf/fabric/host_daemons.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <optional>
#include <utility>

#include "perf/fabric/emulation_costs.h"
#include "perf/fabric/namespaces.h"
#include "perf/fabric/roles.h"
#include "src/base/toml_defaults.h"
#include "src/ipc/control_socket.h"
#include "src/topology/fabric/fabric_file.h"

namespace harmonaize::fabric {
namespace {

constexpr char kLog[] = "harmonaized.log";
constexpr std::chrono::seconds kDaemonGrace(5);
// Most bytes of a Unix socket's path, without the final zero.
constexpr size_t kLongestPath = 107;

const std::string& NameOf(const Laboratory& laboratory, int host) {
  return laboratory.fabric().nodes[static_cast<size_t>(host)].name;
}

}  // namespace

Result<std::string> HostDaemonConfig(const Laboratory& laboratory, int host,
                                     const std::string& text, const std::string& fabric,
                                     const std::string& controller) {
  const StatedCosts costs = EmulationCosts(laboratory.state().message_seconds);
  std::string defaults = fmt::format(
      "[costs]\nmessage_us = {}\nhandling_us = {}\nwire_gbps = {}\nshared_processors = {}\n"
      "bucket_ms = {}\n",
      costs.message_us, costs.handling_us, costs.wire_gbps, costs.shared_processors,
      costs.bucket_ms);
  // Measuring one host would disturb all the others, which are on the same machine.
  defaults += "[calibration]\nagain = false\n";
  // The laboratory's network belongs to it alone, so the daemons need no key. No port is set: each
  // daemon listens at the usual one, because its namespace is its own.
  defaults += fmt::format(
      "[cluster]\naddress = \"{}\"\nallow_unauthenticated = true\n"
      "fabric = \"{}\"\nhost = \"{}\"\ncontroller = \"{}\"\n",
      laboratory.fabric().NicAt({host, 0}).address, fabric, NameOf(laboratory, host), controller);
  HZ_ASSIGN_OR_RETURN(const std::string config,
                      WithTomlDefaults(text, "--daemon-config", defaults));
  return fmt::format("# Written by 'fabric run' for {} of laboratory {}.\n{}",
                     NameOf(laboratory, host), laboratory.name(), config);
}

Result<std::string> DaemonFabric(const Laboratory& laboratory, const std::string& wanted) {
  if (wanted.empty()) return laboratory.folder().FabricFilePath();
  if (wanted == "none") return std::string();
  HZ_ASSIGN_OR_RETURN(const FabricFile file, LoadFabricFile(wanted));
  for (const int host : laboratory.fabric().Hosts()) {
    if (file.fabric.FindNode(NameOf(laboratory, host)) >= 0) continue;
    return InvalidArgument("{} has no host '{}', which laboratory {} has", wanted,
                           NameOf(laboratory, host), laboratory.name());
  }
  return std::filesystem::absolute(wanted).string();
}

std::string HostDaemons::FolderOf(int host) const {
  return laboratory_.folder().HostPath(NameOf(laboratory_, host));
}

std::string HostDaemons::SocketOf(int host) const {
  return FolderOf(host) + "/harmonaized.sock";
}

Status HostDaemons::Start(const std::vector<int>& hosts, const Options& options) {
  for (const int host : hosts) {
    if (daemons_.contains(host) || ControlSocket::Connect(SocketOf(host)).ok()) continue;
    if (SocketOf(host).size() > kLongestPath) {
      return InvalidArgument("{} is too long for a socket; give the laboratory a shorter --name",
                             SocketOf(host));
    }
    HZ_RETURN_IF_ERROR(StartOne(host, options));
  }
  return Status::Ok();
}

Status HostDaemons::StartOne(int host, const Options& options) {
  const std::string& name = NameOf(laboratory_, host);
  const std::string relative = "hosts/" + name + "/";
  HZ_ASSIGN_OR_RETURN(
      const std::string config,
      HostDaemonConfig(laboratory_, host, options.config, options.fabric, options.controller));
  HZ_RETURN_IF_ERROR(laboratory_.folder().Write(relative + "provider.toml", config));
  Result<NamespaceEntry> entry = NamespaceEntry::Open(NamespaceName(laboratory_.name(), name));
  if (!entry.ok()) return entry.status();
  const std::string log_path = FolderOf(host) + "/" + kLog;
  const FileDescriptor log(
      ::open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!log.valid()) return ErrnoError(errno, "cannot open " + log_path);

  PrivateDaemon::Options daemon;
  daemon.program = options.program;
  daemon.folder = FolderOf(host);
  daemon.arguments = {"--config", FolderOf(host) + "/provider.toml"};
  daemon.log_level = options.log_level;
  daemon.variables = {{kRoleVariable, kDaemonRole}};
  daemon.prepare = [&entry, &log] {
    return entry->Enter() && ::dup2(log.get(), STDOUT_FILENO) >= 0 &&
           ::dup2(log.get(), STDERR_FILENO) >= 0;
  };
  daemon.signal_mask = signals_.previous_mask();
  daemon.cancel_fd = signals_.fd();
  daemon.cancelled = [this] {
    while (const std::optional<int> signal = signals_.Next()) {
      if (!LauncherSignals::EndsJob(*signal)) continue;
      ended_by_ = *signal;
      return true;
    }
    return false;
  };
  Result<PrivateDaemon> started = PrivateDaemon::Start(daemon);
  if (!started.ok()) {
    return Status(started.status().code(),
                  fmt::format("{}: {}; its log is {}", name, started.status().message(), log_path));
  }
  guard_.WatchGroup(started->process().pid());
  daemons_.emplace(host, std::move(*started));
  return Status::Ok();
}

void HostDaemons::Wait() {
  for (;;) {
    std::vector<pollfd> events = {{signals_.fd(), POLLIN, 0}};
    for (auto& [host, daemon] : daemons_) {
      if (!daemon.process().PollEnd()) events.push_back({daemon.process().pidfd(), POLLIN, 0});
    }
    if (events.size() == 1) return;
    if (::poll(events.data(), events.size(), -1) < 0 && errno != EINTR) return;
    while (const std::optional<int> signal = signals_.Next()) {
      if (LauncherSignals::EndsJob(*signal)) return;
    }
  }
}

Status HostDaemons::Stop() {
  std::string failures;
  for (auto& [host, daemon] : daemons_) daemon.process().SignalGroup(SIGTERM);
  for (auto& [host, daemon] : daemons_) {
    const Status stopped = daemon.Stop(kDaemonGrace);
    if (stopped.ok()) continue;
    failures += fmt::format("{}{}: {}; its log is {}/{}", failures.empty() ? "" : "\n",
                            NameOf(laboratory_, host), stopped.message(), FolderOf(host), kLog);
  }
  daemons_.clear();
  return failures.empty() ? Status::Ok() : Status(Code::kRemoteError, failures);
}

}  // namespace harmonaize::fabric

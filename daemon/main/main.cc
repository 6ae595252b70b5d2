#include <malloc.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "daemon/config/config.h"
#include "daemon/main/daemon.h"
#include "daemon/main/start_anew.h"
#include "daemon/runtime/close_elsewhere.h"
#include "daemon/runtime/log_sink.h"
#include "daemon/version.h"
#include "src/base/kernel_files.h"
#include "src/base/log.h"
#include "src/memory/fault_guard.h"
#include "src/memory/missing_pages.h"
#include "src/topology/host/host.h"

namespace harmonaize::daemon {
namespace {

constexpr const char* kDescription =
    R"(The Harmonaize daemon: carries out the collectives of this host's NCCL programs.

Without options it listens at the default socket ($HARMONAIZE_SOCKET where that is set;
/run/harmonaize/harmonaized.sock for root; for others $XDG_RUNTIME_DIR/harmonaize/harmonaized.sock,
or /tmp/harmonaize-UID/harmonaized.sock where that is unset) with one worker thread for each
processor it may run on. It stays in the foreground, tells systemd when it is ready, ends cleanly on
SIGTERM or SIGINT, and reads [policy] and [nccl] of its configuration anew on SIGHUP. A second daemon
at the same socket, or with the same state directory (state.path), refuses to start.

Clients believe a daemon that runs as root, as their own user, or as the user whom
/etc/harmonaize/daemon-user names.)";

constexpr const char* kExamples = R"(
Examples:
  harmonaized                                  serve this host
  harmonaized --config /etc/harmonaize/provider.toml
  harmonaized --print-config > provider.toml   write a configuration to start from
  harmonaize status                            what it is doing
)";

/// Returns a descriptor that is readable once SIGTERM, SIGINT or SIGHUP has come, and ignores
/// SIGPIPE.
/// Requires: no thread has started.
Result<FileDescriptor> CatchSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  if (pthread_sigmask(SIG_BLOCK, &set, nullptr) != 0)
    return ErrnoError(errno, "cannot block signals");
  signal(SIGPIPE, SIG_IGN);
  WaitForNoChild();
  FileDescriptor fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.valid()) return ErrnoError(errno, "cannot watch for signals");
  return fd;
}

/// Raises the limit of descriptors as far as it may: a tenant process takes four descriptors, so
/// the usual soft limit would end at 250 processes.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

/// Bytes that malloc keeps at the end of each of its arenas. By itself it learns to keep dozens of
/// megabytes from the first large schedule that is freed.
constexpr int kKeptOfArena = 1 << 20;

/// The kernel's switch for transparent huge pages of shared memory.
constexpr const char* kHugePagesOfSharedMemory =
    "/sys/kernel/mm/transparent_hugepage/shmem_enabled";

bool HugePagesOfSharedMemoryAreDenied() {
  const std::string setting = FirstLine(kHugePagesOfSharedMemory);
  // A kernel without the switch makes no such pages.
  return setting.empty() || setting.find("[deny]") != std::string::npos;
}

/// Logs why the process ends, and returns its exit status. If nobody takes the log the process ends
/// here, since the closing of streams at its end would wait as well.
int End(const Status& served) {
  const int status = served.ok() ? 0 : 1;
  if (!served.ok()) Log(LogLevel::kError, kLogInit, "{}", served.message());
  if (!FlushLog()) _exit(status);
  return status;
}

/// Has the daemon go by what the configuration's file says now of policy, and of settings for NCCL.
/// A file with a mistake changes nothing.
void ReadPolicyAnew(Daemon& daemon, const Config& in_force, const std::string& config_path) {
  if (config_path.empty()) {
    return Log(LogLevel::kWarning, kLogInit,
               "SIGHUP: the daemon has no configuration file (--config) to read anew");
  }
  Result<Config> config = LoadConfig(config_path);
  if (!config.ok()) {
    return Log(LogLevel::kError, kLogInit,
               "SIGHUP: the policy and the settings for NCCL stay as they were: {}",
               config.status().message());
  }
  config->socket_path = in_force.socket_path;
  config->log.level = in_force.log.level;
  Config else_alike = in_force;
  else_alike.policy = config->policy;
  else_alike.nccl = config->nccl;
  const bool other_changes = ConfigTemplate(else_alike) != ConfigTemplate(*config);
  Log(LogLevel::kInfo, kLogInit,
      "SIGHUP: the policy and the settings for NCCL are read anew from {}{}", config_path,
      other_changes ? "; other keys that have changed take effect when the daemon starts anew"
                    : "");
  daemon.SetNcclSettings(config->nccl);
  daemon.SetPolicy(std::move(config->policy), in_force.tenants);
}

/// Serves until the daemon is stopped. Returns whether it is to start anew, which `start_anew` does
/// where the process cannot end otherwise.
Result<bool> Serve(const Config& config, const std::string& config_path,
                   std::shared_ptr<transport::ListeningSockets> listening,
                   const std::function<int()>& start_anew) {
  RaiseDescriptorLimit();
  mallopt(M_TRIM_THRESHOLD, kKeptOfArena);
  HZ_ASSIGN_OR_RETURN(FileDescriptor signals, CatchSignals());
  HZ_RETURN_IF_ERROR(InstallLogSink(config.log));
  HZ_RETURN_IF_ERROR(FaultGuard::Install());
  const Status refuses_missing_pages = MissingPages::Install();
  if (!refuses_missing_pages.ok()) {
    Log(LogLevel::kWarning, kLogInit,
        "pages of registered memory that nobody has touched yet will count as this daemon's ({})",
        refuses_missing_pages.message());
  }
  if (!HugePagesOfSharedMemoryAreDenied()) {
    Log(LogLevel::kInfo, kLogInit,
        "tenants can have huge pages made of memory that they share with this daemon, and keep it "
        "waiting by that: where they are strangers to each other, write 'deny' to {}",
        kHugePagesOfSharedMemory);
  }
  HZ_ASSIGN_OR_RETURN(std::unique_ptr<Daemon> daemon, Daemon::Create(config, std::move(listening)));
  HZ_RETURN_IF_ERROR(daemon->loop().Watch(signals.get(), [&] {
    signalfd_siginfo info;
    if (read(signals.get(), &info, sizeof info) != sizeof info) return;
    if (info.ssi_signo == SIGHUP) return ReadPolicyAnew(*daemon, config, config_path);
    Log(LogLevel::kInfo, kLogInit, "signal {}: stopping", info.ssi_signo);
    daemon->Stop();
  }));
  const auto on_listening = [&] {
    Log(LogLevel::kInfo, kLogInit, "harmonaized {} listens at {} with {} workers", kVersion,
        config.socket_path, config.workers);
    const Host& host = ThisHost();
    Log(LogLevel::kInfo, kLogInit, "on {} processors of {} cores, near {} memory nodes",
        host.processors.size(), host.cores, host.NodesWithProcessors().size());
    sd_notify(0, "READY=1");
  };
  daemon->Run(on_listening, start_anew);
  // A daemon that starts anew is the same process to its service manager.
  if (daemon->is_to_restart()) return true;
  sd_notify(0, "STOPPING=1");
  return false;
}

/// Has the daemon speak these versions with clients and with other daemons; "": all that it can.
Status SetVersions(const std::string& session, const std::string& cluster, Config* config) {
  if (!session.empty()) {
    HZ_ASSIGN_OR_RETURN(config->session_versions, ParseVersionRange(session));
  }
  if (!cluster.empty()) {
    HZ_ASSIGN_OR_RETURN(config->cluster.versions, ParseVersionRange(cluster));
  }
  return Status::Ok();
}

int Main(int argc, char** argv) {
  const std::string program = ProgramFile(argv[0]);
  CLI::App app(kDescription, "harmonaized");
  app.footer(kExamples);
  app.set_version_flag("--version", kVersion);
  std::string config_path;
  std::string socket_path;
  std::string log_level;
  bool print_config = false;
  app.add_option("-c,--config", config_path, "Configuration file (TOML); see --print-config")
      ->type_name("FILE");
  app.add_option("-s,--socket", socket_path, "Where to listen; overrides the configuration")
      ->type_name("PATH");
  app.add_option("-l,--log-level", log_level, "The least grave lines that are logged")
      ->check(CLI::IsMember({"error", "warning", "info", "debug", "trace"}))
      ->type_name("LEVEL");
  // Hidden: tests have a daemon speak as one of an earlier or a later release does.
  std::string session_versions;
  std::string cluster_versions;
  app.add_option("--speak-to-clients", session_versions)->group("");
  app.add_option("--speak-to-hosts", cluster_versions)->group("");
  app.add_flag("--print-config", print_config, "Print the configuration in force, and end");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }

  Result<Config> config = LoadConfig(config_path);
  if (!config.ok()) {
    std::fprintf(stderr, "harmonaized: %s\n", config.status().message().c_str());
    return 2;
  }
  if (!socket_path.empty()) config->socket_path = socket_path;
  if (!log_level.empty()) config->log.level = log_level;
  const Status spoken = SetVersions(session_versions, cluster_versions, &*config);
  if (!spoken.ok()) {
    std::fprintf(stderr, "harmonaized: %s\n", spoken.message().c_str());
    return 2;
  }
  if (print_config) {
    std::fputs(ConfigTemplate(*config).c_str(), stdout);
    return 0;
  }
  const auto listening = std::make_shared<transport::ListeningSockets>(SocketsPassedOn());
  const auto start_anew = [&] {
    Log(LogLevel::kInfo, kLogInit, "starting {} anew", program);
    FlushLog();
    return End(StartAnew(program, argv, listening->TakeCopies()));
  };
  const Result<bool> served = Serve(*config, config_path, listening, start_anew);
  return served.ok() && *served ? start_anew() : End(served.status());
}

}  // namespace
}  // namespace harmonaize::daemon

int main(int argc, char** argv) {
  return harmonaize::daemon::Main(argc, argv);
}

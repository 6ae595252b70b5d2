#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/status.h"

namespace harmonaize::daemon {

/// What one tenant may hold at most. A tenant that reaches a limit gets an error that names it;
/// other tenants notice nothing.
struct Quota {
  int64_t sessions = 1024;
  int64_t communicators = 4096;
  int64_t regions = 65536;
  /// Bytes of registered memory; 0 stands for the host's memory.
  int64_t region_bytes = 0;
  /// Operations that one session may have posted and not seen completed.
  int64_t outstanding_operations = 65536;
};

/// The provider's configuration of one daemon; every value has a default that works.
struct Config {
  std::string socket_path;
  /// Access bits of the socket file: who may become a tenant.
  int64_t socket_mode = 0666;

  /// Threads that reduce and copy; 0: one for each processor the daemon may run on.
  int64_t workers = 0;
  /// Processors to pin the workers to, in turn; empty: not pinned.
  std::vector<int64_t> worker_cpus;
  /// How long the engine looks for new work before it sleeps, in microseconds.
  int64_t engine_spin_us = 5;

  /// A rank that keeps others waiting for this long is reported, in seconds.
  double late_after_seconds = 5;
  /// A communicator that has not formed after this long fails, in seconds.
  double formation_timeout_seconds = 600;

  Quota quota;
  std::string log_level = "info";
};

/// The defaults, or what `path` says on top of them when it is not empty. kInvalidArgument with
/// file, line and column for a wrong or unknown key.
Result<Config> LoadConfig(const std::string& path);

/// The configuration as TOML with every key and its meaning; what `--print-config` shows.
std::string ConfigTemplate(const Config& config);

}  // namespace harmonaize::daemon

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/planner/stated_costs.h"

namespace harmonaize::daemon {

/// What one tenant may hold at most. A tenant that reaches a limit gets an error that names it;
/// other tenants notice nothing.
///
/// 0 stands for as much as is not more than what is then left for all others: see Account, and
/// LimitsOfHost for what there is.
struct Quota {
  int64_t connections = 0;
  int64_t sessions = 1024;
  int64_t communicators = 4096;
  int64_t ranks = 16384;
  int64_t unique_ids = 4096;
  int64_t regions = 0;
  /// Bytes of registered memory; 0 stands for the host's memory.
  int64_t region_bytes = 0;
  /// Bytes of the daemon's own memory that what a tenant asks for takes.
  int64_t memory_bytes = 0;
  /// Operations that one session may have posted and not seen completed.
  int64_t outstanding_operations = 65536;
};

/// Which operations go inline: see InlineLimits.
struct InlineConfig {
  /// Communicators that are made while it is false have no inline path.
  bool enabled = true;
  // The largest block of every collective, in bytes; -1: chosen by what was measured of the host.
  int64_t registered_bytes = -1;
  int64_t heap_bytes = -1;
  /// The same on a host stream, where the caller expects not to wait for the data.
  int64_t stream_bytes = int64_t{256} << 10;
};

/// Who a tenant is.
struct TenantsConfig {
  /// "uid": a tenant is a user of the host. "cgroup": a container is a tenant of its own beside its
  /// user. "socket": each socket of `sockets` has a tenant, and whoever comes by another is a user.
  std::string identity = "uid";
  struct Socket {
    std::string name;  ///< The tenant's, alike at all hosts.
    std::string path;
  };
  /// For "socket": one for each tenant, to be mounted into its containers.
  std::vector<Socket> sockets;
};

/// The values of `workers.placement` in the configuration.
inline constexpr const char* kPlaceByHost = "auto";  ///< kPlaceOnNodes on several nodes, else free.
inline constexpr const char* kPlaceFreely = "none";
inline constexpr const char* kPlaceOnNodes = "nodes";
inline constexpr const char* kPlaceOnProcessors = "processors";

/// What a tenant gets of a connection that others want too, beside theirs.
struct ShareConfig {
  std::string user;  ///< Its name, or its number; or the name of a tenant with a socket.
  double weight = 1;
  /// Goes before those of lower ones, as far as it wants; 0 to 3.
  int64_t priority = 0;
  /// Its TenantIdentity::across_hosts, which FindTenants finds; none where nobody has that name.
  std::optional<uint32_t> tenant = {};
};

/// How this daemon and those of other hosts work together.
struct ClusterConfig {
  /// Where the others reach this daemon, "10.0.0.1:7400"; port 0 lets the kernel choose. "":
  /// nowhere, and its ranks communicate on this host alone.
  std::string address;
  /// The file with the secret that all daemons of the cluster share (ClusterKey::FromFile).
  std::string key_file;
  /// For laboratories: without a key everybody who reaches the port is believed.
  bool allow_unauthenticated = false;
  /// The provider's fabric file; "": plans take the network for one switch.
  std::string fabric;
  /// This host's name in it; "": the host that has `address`.
  std::string host;
  /// The daemon that sees to it that jobs without a host in common share links by their weights:
  /// the name of its host in the fabric file, or its address, alike at all hosts. "": there is
  /// none.
  std::string controller;
  /// Of TCP connections that carry data: "auto", "system" or a name that the kernel knows.
  std::string congestion_control = "auto";
  /// Silence after which another daemon is taken for dead.
  double dead_after_seconds = 2;
};

/// How plans for several hosts are chosen.
struct PlansConfig {
  std::string policy = "adaptive";  ///< A PlanPolicyName.
  std::string file;                 ///< For "fixed": plan_file.h.
  bool reproducible = false;
  /// Whether plans of running jobs follow what links carry, where there is a fabric file.
  bool live = true;
  /// Plans in use give way to others that are predicted to be so many times as fast.
  double least_gain = 1.08;
  /// For tests: so often, in milliseconds, the plans in use give way to others that were
  /// considered, whatever they are predicted to take. 0: never.
  int64_t switch_every_ms = 0;
};

/// Bounds what the daemon logs, and what of it a tenant may cause.
struct LogConfig {
  std::string level = "info";
  /// Lines that one tenant may cause at once, and in each second in the long run. What exceeds that
  /// is counted instead.
  int64_t tenant_burst = 100;
  double tenant_lines_per_second = 10;
};

/// The provider's configuration of one daemon; every value has a default that works.
struct Config {
  std::string socket_path;
  /// Access bits of the socket file: who may become a tenant.
  int64_t socket_mode = 0666;
  /// The socket by which operators are heard, who see all tenants; "": OperatorSocketPath of the
  /// tenants'. OperatorSocketOf has the one in force.
  std::string operator_socket_path;
  /// The group whose members may use it; "": none. Not an error where the host has no such group.
  std::string operator_group = "harmonaize-operators";
  TenantsConfig tenants;

  /// The folder in which the daemon keeps what outlives it; "": none, and nothing is kept.
  std::string state_path;
  /// Whether this host is measured again, while it is at rest, if it was measured badly.
  bool measure_again = true;

  /// Threads that reduce and copy; 0: one for each processor the daemon may run on.
  int64_t workers = 0;
  /// Where they run: "auto", "none", "nodes" or "processors", see worker_places.h.
  std::string worker_placement = "auto";
  /// Processors to pin the workers to, in turn, whatever the placement; empty: as placed.
  std::vector<int64_t> worker_cpus;
  /// How long the engine looks for new work before it sleeps, in microseconds; -1: for as long as
  /// that pays, by what a wake-up costs here and how long recent waits took.
  int64_t engine_spin_us = -1;

  InlineConfig inline_path;
  ClusterConfig cluster;
  PlansConfig plans;
  StatedCosts costs;

  /// A rank that keeps others waiting for this long is reported, in seconds.
  double late_after_seconds = 5;
  /// A communicator that has not formed after this long fails, in seconds.
  double formation_timeout_seconds = 600;

  Quota quota;
  /// Of tenants that are not named: 1.
  std::vector<ShareConfig> shares;
  LogConfig log;
};

/// The defaults, or what `path` says on top of them when it is not empty. kInvalidArgument with
/// file, line and column for a wrong or unknown key.
Result<Config> LoadConfig(const std::string& path);

std::string OperatorSocketOf(const Config& config);

/// The configuration as TOML with every key and its meaning; what `--print-config` shows.
std::string ConfigTemplate(const Config& config);

}  // namespace harmonaize::daemon

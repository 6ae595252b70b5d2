#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/config/nccl_config.h"
#include "daemon/config/policy.h"
#include "src/base/status.h"
#include "src/base/version_range.h"
#include "src/ipc/profile_record.h"
#include "src/planner/stated_costs.h"

namespace harmonaize::daemon {

/// Most that one tenant may hold of each resource. A tenant that reaches a limit gets an error that
/// names it; other tenants notice nothing.
///
/// 0 sets no limit of its own: a tenant may then hold no more than is left for all others. See
/// Account, and LimitsOfHost for what there is.
struct Quota {
  int64_t connections = 0;
  int64_t sessions = 1024;
  int64_t communicators = 4096;
  int64_t ranks = 16384;
  int64_t unique_ids = 4096;
  int64_t tickets = 1024;
  int64_t newcomers = 1024;
  int64_t regions = 0;
  /// Bytes of registered memory; 0 stands for the host's memory.
  int64_t region_bytes = 0;
  /// Bytes of the daemon's own memory that are taken by what a tenant asks for.
  int64_t memory_bytes = 0;
  /// Bytes of checkpoints that are kept in the host's memory.
  int64_t checkpoint_bytes = 0;
  /// Bytes of a user's checkpoints in the provider's store, all hosts together; 0: no bound.
  int64_t stored_bytes = int64_t{1} << 40;
  /// Operations that one session may have posted and not seen completed.
  int64_t outstanding_operations = 65536;
};

/// Which operations go inline: see InlineLimits.
struct InlineConfig {
  /// Communicators that are made while it is false have no inline path.
  bool enabled = true;
  // The largest block in registered memory that goes inline, of every collective, in bytes; -1:
  // chosen by what was measured of the host.
  int64_t registered_bytes = -1;
  // The largest block on the heap that goes inline, likewise.
  int64_t heap_bytes = -1;
  /// The largest block that goes inline on a host stream, whichever memory it is in, in bytes: the
  /// caller expects not to wait for the data there. -1: no less than without a stream where the
  /// ranks fill the processors, kOverlappedBytes elsewhere (daemon/host/inline_limits.h).
  int64_t stream_bytes = -1;
};

/// How tenants are told apart.
struct TenantsConfig {
  /// "uid": a tenant is a user of the host. "cgroup": a container is a tenant of its own beside its
  /// user. "socket": each socket of `sockets` has a tenant, and a process that comes by another
  /// socket belongs to its user.
  std::string identity = "uid";
  struct Socket {
    std::string name;  ///< The tenant's name, the same at all hosts.
    std::string path;
  };
  /// For "socket": one socket for each tenant, to be mounted into its containers.
  std::vector<Socket> sockets;
};

// The values of `workers.placement` in the configuration; see PlaceWorkers.
inline constexpr const char* kPlaceByHost = "auto";  ///< kPlaceOnNodes on several nodes, else free.
/// Workers run on any processor.
inline constexpr const char* kPlaceFreely = "none";
/// Each worker runs on the processors of one node.
inline constexpr const char* kPlaceOnNodes = "nodes";
/// Each worker runs on one processor.
inline constexpr const char* kPlaceOnProcessors = "processors";

/// The share that a tenant gets of a connection that other tenants want, too.
struct ShareConfig {
  std::string user;  ///< The user's name or number, or the name of a tenant with a socket.
  double weight = 1;
  /// A tenant of higher priority gets what it wants before those of lower priority; 0 to 3.
  int64_t priority = 0;
  /// TenantIdentity::across_hosts of the tenant, which FindTenants sets; nullopt if nobody has that
  /// name.
  std::optional<uint32_t> tenant = {};
};

/// How this daemon and those of other hosts work together.
struct ClusterConfig {
  /// The address at which other daemons reach this one, such as "10.0.0.1:7400"; port 0 lets the
  /// kernel choose. "": they cannot, and its ranks communicate on this host alone.
  std::string address;
  /// The file with the secret that all daemons of the cluster share (ClusterKey::FromFile).
  std::string key_file;
  /// For laboratories: without a key every peer that reaches the port is believed.
  bool allow_unauthenticated = false;
  /// The provider's fabric file; "": plans take the network for one switch.
  std::string fabric;
  /// This host's name in the fabric file; "": the host that has `address`.
  std::string host;
  /// The daemon that makes jobs without a host in common share links by their weights: the name of
  /// its host in the fabric file, or its address, the same at all hosts. "": there is none.
  std::string controller;
  /// Congestion control of TCP connections that carry data: "auto", "system" or a name that the
  /// kernel knows.
  std::string congestion_control = "auto";
  /// Silence, in seconds, after which another daemon is taken for dead.
  double dead_after_seconds = 2;
  /// Versions that are spoken with other daemons, for tests of releases apart; no key stands for
  /// it. nullopt: transport::kClusterVersions.
  std::optional<VersionRange> versions = {};
};

/// How the sizes of elastic jobs follow the load (docs/elasticity.md).
struct SizingConfig {
  /// Whether this host's places, and jobs, take part. At the controller, or at a daemon that stands
  /// alone: whether it makes offers to jobs by itself.
  bool enabled = false;
  /// Number of ranks for which this host has places; 0: one for each GPU, or without GPUs for each
  /// processor.
  int64_t places = 0;
  /// Pause between two looks at all jobs, in seconds.
  double look_every_seconds = 5;
  /// Time, in seconds, in which a job may answer an offer.
  double answer_within_seconds = 60;
  /// Time, in seconds, in which ranks come or leave after that, at least.
  double notice_seconds = 60;
  /// Time, in seconds, for which a job is left alone after an offer, at least.
  double settle_seconds = 60;
};

/// What the daemon keeps of the checkpoints of jobs (docs/checkpoints.md).
struct CheckpointConfig {
  /// Time, in seconds, for which checkpoints in memory outlive the last rank of their job on this
  /// host.
  double keep_seconds = 3600;
  /// Folder in which the daemon stores checkpoints for tenants (docs/provider-store.md); "": this
  /// provider has no store.
  std::string store;
  /// How many checkpoints of a job stay there, the newest, beside ends of epochs.
  int64_t store_keep = 2;
  /// Time, in seconds, after which the checkpoints of a job go that were neither added to nor read.
  double store_keep_seconds = 30 * 86400.0;
  /// Bytes per second at which a tenant's parts are written; 0: no bound.
  int64_t store_bytes_per_second = 0;
};

/// How plans for several hosts are chosen.
struct PlansConfig {
  std::string policy = "adaptive";  ///< A PlanPolicyName.
  std::string file;                 ///< The plan file for "fixed"; see plan_file.h.
  /// Whether only plans that reduce in the order of the ranks are used.
  bool reproducible = false;
  /// The most lossy format that sums of floats may have between hosts, for all tenants: "none",
  /// "bf16" or "fp8".
  std::string compression = "none";
  /// Largest error of a result that this may bring, as WireErrorBound states it.
  double compression_error_bound = 0;
  /// Whether plans of running jobs follow what links carry, where there is a fabric file.
  bool live = true;
  /// A plan in use gives way to another one that is predicted to be this many times as fast.
  double least_gain = 1.08;
  /// For tests: interval, in milliseconds, at which plans in use give way to others that were
  /// considered, whatever time they are predicted to take. 0: never.
  int64_t switch_every_ms = 0;
};

/// Where the events that begin at this daemon are published (docs/nats.md).
struct NatsConfig {
  /// As "nats://HOST[:PORT]" or "tls://HOST[:PORT]", tried in turn; empty: nowhere.
  std::vector<std::string> servers = {};
  /// The file with the daemon's credentials, read anew for each connection; "": none, for servers
  /// on this host alone.
  std::string credentials_file = {};
  /// The certificates, in PEM form, by one of which a server's must be signed; "": those that this
  /// host trusts anyway.
  std::string ca_file = {};
  /// First part of all subjects, and of the stream's name.
  std::string subject_prefix = "harmonaize";
  /// Size, in bytes, of the stream, if the daemon makes it.
  int64_t keep_bytes = int64_t{1} << 30;
  /// Time, in seconds, for which a stream that the daemon makes keeps an event.
  double keep_seconds = 7 * 86400;
};

/// What the daemon keeps of the events that tenants and operators hear.
struct EventsConfig {
  /// Size, in bytes, of what is kept of each tenant's events, and for the operators of all.
  int64_t keep_bytes = int64_t{8} << 20;
  /// Time, in seconds, for which an event is kept.
  double keep_seconds = 7 * 86400;
  NatsConfig nats = {};
};

/// One place that publishes what is planned for this host: [[sources]] of the configuration.
struct SourceConfig {
  /// Who publishes: "azure", "aws", "gcp" or "kubernetes".
  std::string kind;
  /// Where to ask, as "http://ADDRESS[:PORT]" with an IP address or, for Kubernetes,
  /// "https://HOST[:PORT]". "": the link-local address that the cloud has for it; Kubernetes has
  /// none.
  std::string endpoint = {};
  /// Pause between two polls, in seconds; 0: as the source needs it (UsualInterval).
  int64_t interval_seconds = 0;
  /// For Kubernetes: the file with the service account's token, read anew for each poll.
  std::string token_file = {};
  /// For Kubernetes: the certificates, in PEM form, by one of which the server's must be signed.
  std::string ca_file = {};
  /// For Kubernetes: the node's name. For Azure: the machine's name as events name it; "": it is
  /// asked for. Other sources have none.
  std::string node = {};
  /// For Azure: whether an event that concerns this machine alone is approved, so that it begins at
  /// once, when all jobs on this host have acknowledged it.
  bool approve_when_all_agree = false;
  /// For Azure: how many seconds all have to agree before the event is approved.
  int64_t approve_after_seconds = 30;
};

/// The sources that are polled; none by default.
struct SourcesConfig {
  std::vector<SourceConfig> sources = {};
};

/// How the HTTP interface is reached beside its Unix sockets.
struct HttpConfig {
  /// The literal address at which the daemon listens for HTTP over TCP, such as "10.0.0.1:7401";
  /// "": nowhere. Without a certificate it may be a loopback address alone.
  std::string listen;
  std::string certificate_file;  ///< PEM, the server's own first; read anew when it changes.
  std::string key_file;          ///< PEM.
  /// Names by which callers may reach it, beside "localhost" and the address.
  std::vector<std::string> names;
};

/// NCCL's RAS protocol (docs/nccl-ras.md).
struct RasConfig {
  /// NCCL's own port for RAS clients, where the address names none.
  static constexpr uint16_t kPort = 28028;
  /// The literal loopback address at which the daemon answers NCCL's RAS clients, such as
  /// "127.0.0.1:28028"; "": nowhere.
  std::string listen = {};
};

/// Bounds what the daemon logs, and what of it a tenant may cause.
struct LogConfig {
  std::string level = "info";
  /// Lines that one tenant may cause at once. Lines beyond the two limits are counted instead.
  int64_t tenant_burst = 100;
  /// Lines that one tenant may cause in each second in the long run.
  double tenant_lines_per_second = 10;
};

/// Which events of NCCL's profiler are recorded (docs/nccl-profiler.md).
struct ProfilerConfig {
  /// Events that processes are to tell of, of ProfileEvents; 0: none. Steps and the control of
  /// NCCL's proxy threads are many, and left out.
  uint32_t events = kProfileGroups | kProfileCollectives | kProfilePointToPoint |
                    kProfileProxyOperations | kProfileKernels | kProfileCopyCollectives;
};

/// The provider's configuration of one daemon; every value has a default that works.
struct Config {
  std::string socket_path;
  /// Versions that are spoken with clients, for tests of releases apart; no key stands for it.
  /// nullopt: kSessionVersions.
  std::optional<VersionRange> session_versions = {};
  /// Access bits of the socket file. They decide who may become a tenant.
  int64_t socket_mode = 0666;
  /// The socket at which operators connect, who see all tenants; "": OperatorSocketPath of the
  /// tenants' socket. OperatorSocketOf returns the one in force.
  std::string operator_socket_path;
  /// The group whose members may use the operators' socket; "": none. A host without such a group
  /// is no error.
  std::string operator_group = "harmonaize-operators";
  TenantsConfig tenants;

  /// The folder in which the daemon keeps what outlives it; "": none, and nothing is kept.
  std::string state_path;
  /// Whether this host is measured again, while it is at rest, if its measurement is unsure.
  bool measure_again = true;

  /// Threads that reduce and copy; 0: one for each processor the daemon may run on.
  int64_t workers = 0;
  /// Where the workers run: "auto", "none", "nodes" or "processors", see worker_places.h.
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
  SizingConfig sizing;
  CheckpointConfig checkpoint;

  /// A rank that keeps others waiting for this long is reported, in seconds.
  double late_after_seconds = 5;
  /// A communicator that has not formed after this long fails, in seconds.
  double formation_timeout_seconds = 600;

  Quota quota;
  /// Shares of the tenants that the provider names; the weight of all others is 1.
  std::vector<ShareConfig> shares;
  PolicyConfig policy;
  HttpConfig http;
  SourcesConfig sources;
  EventsConfig events;
  LogConfig log;
  NcclConfig nccl;
  RasConfig ras;
  ProfilerConfig profiler;
};

/// Returns the defaults, with the values of the file `path` on top of them unless `path` is empty.
/// Returns kInvalidArgument, with file, line and column, for a wrong or unknown key.
Result<Config> LoadConfig(const std::string& path);

/// Returns the path of the operators' socket that is in force.
std::string OperatorSocketOf(const Config& config);

/// Returns the configuration as TOML, with every key and its meaning, for `--print-config`.
std::string ConfigTemplate(const Config& config);

}  // namespace harmonaize::daemon

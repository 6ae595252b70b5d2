#include "daemon/config/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "daemon/config/state_directory.h"
#include "daemon/config/tenant_number.h"
#include "src/base/names.h"
#include "src/base/toml_reader.h"
#include "src/base/toml_text.h"
#include "src/ipc/operator_socket.h"
#include "src/ipc/socket_path.h"
#include "src/topology/host/host.h"
#include "src/transport/address.h"

namespace harmonaize::daemon {
namespace {

int64_t ProcessorsHere() {
  return static_cast<int64_t>(ThisHost().processors.size());
}

int64_t MemoryHere() {
  return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
}

/// Returns what a file says of a value that is this host's: 0, which is right for every host.
int64_t Portable(int64_t value, int64_t of_this_host) {
  return value == of_this_host ? 0 : value;
}

void FillDefaults(Config* config) {
  if (config->socket_path.empty()) config->socket_path = DefaultSocketPath();
  if (config->workers == 0) config->workers = ProcessorsHere();
  if (config->state_path.empty()) config->state_path = DefaultStateDirectory();
  if (config->quota.region_bytes == 0) config->quota.region_bytes = MemoryHere();
}

void ReadShares(TomlReader& reader, Config* config) {
  for (size_t i = 0; i < reader.Tables("share"); ++i) {
    ShareConfig share;
    const std::string key = fmt::format("share[{}]", i);
    reader.String(key + ".user", &share.user);
    reader.Number(key + ".weight", 0.001, 1000, &share.weight);
    reader.Integer(key + ".priority", 0, 3, &share.priority);
    if (share.user.empty()) {
      reader.Reject(
          key + ".user",
          "[[share]] needs 'user', a user's name or number in quotes, as user = \"1001\"");
    }
    config->shares.push_back(share);
  }
}

void ReadSources(TomlReader& reader, Config* config) {
  for (size_t i = 0; i < reader.Tables("sources"); ++i) {
    SourceConfig source;
    const std::string key = fmt::format("sources[{}]", i);
    reader.Choice(key + ".kind", {"azure", "aws", "gcp", "kubernetes"}, &source.kind);
    if (source.kind.empty()) reader.Reject(key + ".kind", "says who publishes");
    reader.String(key + ".endpoint", &source.endpoint);
    reader.Integer(key + ".interval_seconds", 0, 3600, &source.interval_seconds);
    reader.String(key + ".token_file", &source.token_file);
    reader.String(key + ".ca_file", &source.ca_file);
    reader.String(key + ".node", &source.node);
    reader.Boolean(key + ".approve_when_all_agree", &source.approve_when_all_agree);
    reader.Integer(key + ".approve_after_seconds", 1, 86400, &source.approve_after_seconds);
    config->sources.sources.push_back(source);
  }
}

std::string TomlList(const std::vector<std::string>& texts) {
  std::vector<std::string> quoted;
  for (const std::string& text : texts) quoted.push_back(TomlText(text));
  return fmt::format("{}", fmt::join(quoted, ", "));
}

std::string SourcesTemplate(const Config& config) {
  std::string text;
  for (const SourceConfig& source : config.sources.sources) {
    text += fmt::format(
        "[[sources]]\nkind = {}\nendpoint = {}\ninterval_seconds = {}\ntoken_file = {}\n"
        "ca_file = {}\nnode = {}\napprove_when_all_agree = {}\n"
        "approve_after_seconds = {}\n",
        TomlText(source.kind), TomlText(source.endpoint), source.interval_seconds,
        TomlText(source.token_file), TomlText(source.ca_file), TomlText(source.node),
        source.approve_when_all_agree, source.approve_after_seconds);
  }
  return text.empty() ? "# [[sources]]\n# kind = \"aws\"\n" : text;
}

void ReadTenantSockets(TomlReader& reader, Config* config) {
  std::map<uint32_t, std::string> names;
  for (size_t i = 0; i < reader.Tables("tenants.sockets"); ++i) {
    TenantsConfig::Socket socket;
    const std::string key = fmt::format("tenants.sockets[{}]", i);
    reader.String(key + ".name", &socket.name);
    reader.String(key + ".path", &socket.path);
    if (socket.name.empty()) reader.Reject(key + ".name", "names the tenant");
    if (socket.path.empty()) reader.Reject(key + ".path", "says where the socket is to be");
    const auto [other, is_new] = names.emplace(NumberFromName(socket.name), socket.name);
    if (!is_new) {
      reader.Reject(key + ".name",
                    fmt::format("cannot be told from '{}'; choose another name", other->second));
    }
    config->tenants.sockets.push_back(socket);
  }
}

std::string TenantSocketsTemplate(const Config& config) {
  std::string text;
  for (const TenantsConfig::Socket& socket : config.tenants.sockets) {
    text += fmt::format("[[tenants.sockets]]\nname = {}\npath = {}\n", TomlText(socket.name),
                        TomlText(socket.path));
  }
  if (!text.empty()) return text;
  return "# [[tenants.sockets]]\n# name = \"team-a\"\n"
         "# path = \"/run/harmonaize/tenants/team-a.sock\"\n";
}

void ReadRas(TomlReader& reader, RasConfig* config) {
  reader.String("ras.listen", &config->listen);
  if (config->listen.empty()) return;
  const auto address = transport::NetworkAddress::Parse(config->listen, RasConfig::kPort);
  if (address.ok() && address->IsLoopback()) return;
  reader.Reject("ras.listen",
                fmt::format("'ras.listen' must be a loopback address, as \"127.0.0.1:{}\": callers "
                            "are known by the kernel of this host alone",
                            RasConfig::kPort));
}

std::string SharesTemplate(const Config& config) {
  std::string text;
  for (const ShareConfig& share : config.shares) {
    text += fmt::format("[[share]]\nuser = {}\nweight = {}\npriority = {}\n", TomlText(share.user),
                        share.weight, share.priority);
  }
  return text.empty() ? "# [[share]]\n# user = \"alice\"\n# weight = 4\n# priority = 0\n" : text;
}

/// Returns the names of the events, in the order of their bits.
std::vector<std::string> NamesOfProfilerEvents(uint32_t events) {
  std::vector<std::string> names;
  for (const ProfileEventName& one : ProfileEventNames()) {
    if ((events & one.event) != 0) names.emplace_back(one.name);
  }
  return names;
}

void ReadProfiler(TomlReader& reader, ProfilerConfig* profiler) {
  std::vector<std::string> names = NamesOfProfilerEvents(profiler->events);
  reader.StringList("profiler.events", &names);
  profiler->events = 0;
  std::vector<std::string_view> known;
  for (const ProfileEventName& one : ProfileEventNames()) known.push_back(one.name);
  for (const std::string& name : names) {
    const auto found = std::find(known.begin(), known.end(), name);
    if (found == known.end()) {
      reader.Reject("profiler.events",
                    fmt::format("has no event '{}'{}; there are {}", name, DidYouMean(name, known),
                                fmt::join(known, ", ")));
      continue;
    }
    profiler->events |= ProfileEventNames()[static_cast<size_t>(found - known.begin())].event;
  }
}

Status Read(TomlReader& reader, Config* config) {
  // Upper bound of values without a natural limit: more than any host has.
  constexpr int64_t kMany = int64_t{1} << 40;
  reader.String("socket.path", &config->socket_path);
  reader.Integer("socket.mode", 0, 0777, &config->socket_mode);
  reader.String("operators.socket", &config->operator_socket_path);
  reader.String("operators.group", &config->operator_group);
  reader.Choice("tenants.identity", {"uid", "cgroup", "socket"}, &config->tenants.identity);
  ReadTenantSockets(reader, config);
  reader.Integer("workers.count", 0, 1024, &config->workers);
  reader.Choice("workers.placement",
                {kPlaceByHost, kPlaceFreely, kPlaceOnNodes, kPlaceOnProcessors},
                &config->worker_placement);
  reader.IntegerList("workers.cpus", 0, 4095, &config->worker_cpus);
  reader.String("state.path", &config->state_path);
  reader.Boolean("calibration.again", &config->measure_again);
  reader.Boolean("inline.enabled", &config->inline_path.enabled);
  reader.Integer("inline.registered_bytes", -1, kMany, &config->inline_path.registered_bytes);
  reader.Integer("inline.heap_bytes", -1, kMany, &config->inline_path.heap_bytes);
  reader.Integer("inline.stream_bytes", -1, kMany, &config->inline_path.stream_bytes);
  reader.String("cluster.address", &config->cluster.address);
  reader.String("cluster.key_file", &config->cluster.key_file);
  reader.Boolean("cluster.allow_unauthenticated", &config->cluster.allow_unauthenticated);
  reader.String("cluster.fabric", &config->cluster.fabric);
  reader.String("cluster.host", &config->cluster.host);
  reader.String("cluster.controller", &config->cluster.controller);
  reader.String("cluster.congestion_control", &config->cluster.congestion_control);
  reader.Number("cluster.dead_after_seconds", 0.1, 3600, &config->cluster.dead_after_seconds);
  reader.Choice("plans.policy", {"adaptive", "static-ring", "fixed"}, &config->plans.policy);
  reader.String("plans.file", &config->plans.file);
  reader.Boolean("plans.reproducible", &config->plans.reproducible);
  reader.Choice("plans.compression", {"none", "bf16", "fp8"}, &config->plans.compression);
  reader.Number("plans.compression_error_bound", 0, 1, &config->plans.compression_error_bound);
  reader.Boolean("plans.live", &config->plans.live);
  reader.Number("plans.least_gain", 1.01, 100, &config->plans.least_gain);
  reader.Integer("plans.switch_every_ms", 0, 3'600'000, &config->plans.switch_every_ms);
  reader.Number("costs.message_us", 0, 1e9, &config->costs.message_us);
  reader.Number("costs.handling_us", 0, 1e9, &config->costs.handling_us);
  reader.Number("costs.wire_gbps", 0, 1e9, &config->costs.wire_gbps);
  reader.Number("costs.memory_gbps", 1e-3, 1e9, &config->costs.memory_gbps);
  reader.Integer("costs.shared_processors", 0, 4096, &config->costs.shared_processors);
  reader.Number("costs.bucket_ms", 0, 1e6, &config->costs.bucket_ms);
  reader.Boolean("elastic.enabled", &config->sizing.enabled);
  reader.Integer("elastic.places", 0, 1 << 20, &config->sizing.places);
  reader.Number("elastic.look_every_seconds", 0.1, 3600, &config->sizing.look_every_seconds);
  reader.Number("elastic.answer_within_seconds", 1, 86400, &config->sizing.answer_within_seconds);
  reader.Number("elastic.notice_seconds", 1, 86400, &config->sizing.notice_seconds);
  reader.Number("elastic.settle_seconds", 0, 86400, &config->sizing.settle_seconds);
  const ClusterConfig& cluster = config->cluster;
  if (!config->sizing.enabled && !cluster.controller.empty() && cluster.fabric.empty()) {
    reader.Reject(
        "cluster.controller",
        "needs 'cluster.fabric', since without it nobody knows which jobs meet on a link");
  }
  if (config->sizing.enabled && !cluster.address.empty() && cluster.controller.empty()) {
    reader.Reject("elastic.enabled",
                  "needs 'cluster.controller', the daemon that makes the offers, where there are "
                  "other hosts");
  }
  reader.Integer("engine.spin_microseconds", -1, 1'000'000, &config->engine_spin_us);
  reader.Number("ranks.late_after_seconds", 0.001, 1e6, &config->late_after_seconds);
  reader.Number("ranks.formation_timeout_seconds", 0.001, 1e9, &config->formation_timeout_seconds);
  reader.Integer("quota.connections", 0, kMany, &config->quota.connections);
  reader.Integer("quota.sessions", 0, kMany, &config->quota.sessions);
  reader.Integer("quota.communicators", 0, kMany, &config->quota.communicators);
  reader.Integer("quota.ranks", 0, kMany, &config->quota.ranks);
  reader.Integer("quota.unique_ids", 0, kMany, &config->quota.unique_ids);
  reader.Integer("quota.tickets", 0, kMany, &config->quota.tickets);
  reader.Integer("quota.newcomers", 0, kMany, &config->quota.newcomers);
  reader.Integer("quota.regions", 0, kMany, &config->quota.regions);
  reader.Integer("quota.region_bytes", 0, int64_t{1} << 60, &config->quota.region_bytes);
  reader.Integer("quota.memory_bytes", 0, int64_t{1} << 60, &config->quota.memory_bytes);
  reader.Integer("quota.checkpoint_bytes", 0, int64_t{1} << 60, &config->quota.checkpoint_bytes);
  reader.Integer("quota.stored_bytes", 0, int64_t{1} << 60, &config->quota.stored_bytes);
  reader.Number("checkpoint.keep_seconds", 0, 1e9, &config->checkpoint.keep_seconds);
  reader.String("checkpoint.store", &config->checkpoint.store);
  reader.Integer("checkpoint.store_keep", 1, 1'000'000, &config->checkpoint.store_keep);
  reader.Number("checkpoint.store_keep_seconds", 0, 1e9, &config->checkpoint.store_keep_seconds);
  reader.Integer("checkpoint.store_bytes_per_second", 0, int64_t{1} << 53,
                 &config->checkpoint.store_bytes_per_second);
  reader.Integer("quota.outstanding_operations", 1, int64_t{1} << 24,
                 &config->quota.outstanding_operations);
  ReadShares(reader, config);
  ReadPolicy(reader, &config->policy);
  ReadProfiler(reader, &config->profiler);
  reader.String("http.listen", &config->http.listen);
  reader.String("http.certificate_file", &config->http.certificate_file);
  reader.String("http.key_file", &config->http.key_file);
  reader.StringList("http.names", &config->http.names);
  ReadSources(reader, config);
  reader.Integer("events.keep_bytes", int64_t{1} << 20, kMany, &config->events.keep_bytes);
  reader.Number("events.keep_seconds", 1, 1e9, &config->events.keep_seconds);
  reader.StringList("events.nats", &config->events.nats.servers);
  reader.String("events.nats_credentials", &config->events.nats.credentials_file);
  reader.String("events.nats_ca_file", &config->events.nats.ca_file);
  reader.String("events.nats_subject_prefix", &config->events.nats.subject_prefix);
  reader.Integer("events.nats_keep_bytes", int64_t{1} << 20, kMany,
                 &config->events.nats.keep_bytes);
  reader.Number("events.nats_keep_seconds", 1, 1e9, &config->events.nats.keep_seconds);
  reader.Choice("log.level", {"error", "warning", "info", "debug", "trace"}, &config->log.level);
  reader.Integer("log.tenant_burst", 1, 1'000'000, &config->log.tenant_burst);
  reader.Number("log.tenant_lines_per_second", 0.01, 1e6, &config->log.tenant_lines_per_second);
  ReadNccl(reader, &config->nccl);
  ReadRas(reader, &config->ras);
  return reader.Finish();
}

}  // namespace

Result<Config> LoadConfig(const std::string& path) {
  Config config;
  if (!path.empty()) {
    HZ_ASSIGN_OR_RETURN(TomlReader reader, TomlReader::FromFile(path));
    HZ_RETURN_IF_ERROR(Read(reader, &config));
  }
  FillDefaults(&config);
  return config;
}

std::string OperatorSocketOf(const Config& config) {
  return config.operator_socket_path.empty() ? OperatorSocketPath(config.socket_path)
                                             : config.operator_socket_path;
}

std::string ConfigTemplate(const Config& config) {
  return fmt::format(
      R"(# Configuration of harmonaized. Every key may be left out; what stands here is in force.

[socket]
path = {}
mode = 0o{:o}                  # who may connect, and so become a tenant

[operators]                     # who see all tenants, and may measure the network
socket = {}                     # "": operator.sock, beside the tenants' socket
group = {}                      # whose members may use it, beside the daemon's own user

[tenants]
identity = "{}"                 # uid; cgroup: also by container; socket: also by tenants.socket
{}
[state]
path = {}                     # keeps what was measured of this host; a folder

[calibration]
again = {}                    # while at rest, measure this host again if it was busy the first time

[workers]
count = {}                      # threads that reduce and copy; 0: as many as processors, {} here
placement = "{}"              # none, nodes or processors; auto: nodes, where there are several
cpus = [{}]                      # processors to pin them to instead, in turn

[engine]
spin_microseconds = {}          # how long to look for work before sleeping; -1: as it pays

[inline]                        # operations that the ranks of a host carry out themselves
enabled = {}
registered_bytes = {}           # the largest block, in registered memory; -1: by calibration
heap_bytes = {}                 # the largest block on the heap; -1: by calibration
stream_bytes = {}               # and no larger than this on a host stream; -1: as it pays

[cluster]                       # the daemons of other hosts
address = {}                  # where they reach this one, as 10.0.0.1:7400; "": it stands alone
key_file = {}                 # holds the secret that all daemons share, 32 bytes or more
allow_unauthenticated = {}      # for laboratories: do without a key
fabric = {}                   # the fabric file (docs/fabric-file.md); "": one switch is assumed
host = {}                     # this host's name in it; "": the one with this address
controller = {}               # the host, or address, of the daemon that shares links out; "": none
congestion_control = {}     # of data: auto (the kernel's, but no BBR on fast links), system, a name
dead_after_seconds = {}         # silence after which a daemon is taken for dead

[plans]                         # how collectives between hosts are carried out
policy = "{}"             # adaptive, static-ring (the given order, as NCCL does), fixed
file = {}                     # the plan, for fixed (docs/planning.md)
reproducible = {}               # only plans that reduce in the order of the ranks
compression = "{}"            # of sums between hosts, at most: none, bf16, fp8
compression_error_bound = {}    # of their results, by the sum of magnitudes (docs/planning.md)
live = {}                       # follow what links carry while jobs run (docs/control-loop.md)
least_gain = {}                 # for plans that are predicted to be so many times as fast
switch_every_ms = {}            # for tests: change to another plan so often; 0: never

[costs]                         # of messages between hosts, for predictions
message_us = {}                 # from a send that could start to a receive that is done
handling_us = {}                # a host's own work for a message it sends, or gets
wire_gbps = {}                  # GB/s that a processor sends or receives; 0: it touches no byte (RDMA)
memory_gbps = {}                # what a host reads and writes
shared_processors = {}          # they do the work of all hosts, as in a laboratory; 0: each has its own
bucket_ms = {}                  # of its rate, what a link sends at once after a pause; switches: 0

[elastic]                       # jobs that may change their size are offered ranks by the load
enabled = {}                 # this host takes part; offers come from cluster.controller, or from here
places = {}                     # for ranks on this host; 0: one for each GPU, or else each processor
look_every_seconds = {}         # at all jobs
answer_within_seconds = {}      # a job answers an offer
notice_seconds = {}             # ranks come or leave after that, at least
settle_seconds = {}             # a job is left alone after an offer, at least

[ranks]
late_after_seconds = {}         # report a rank that keeps others waiting this long
formation_timeout_seconds = {}  # give up on a communicator that has not formed

[quota]                         # for each tenant; 0: no more than is then left for all others
connections = {}
sessions = {}
communicators = {}
ranks = {}                      # of communicators, on this host
unique_ids = {}                 # of communicators that have not formed
tickets = {}                    # by which newcomers find jobs that have their home here
newcomers = {}                  # that wait at this home
regions = {}
region_bytes = {}               # 0: as much as the host has, {} here
memory_bytes = {}               # of the daemon's own memory
checkpoint_bytes = {}           # of checkpoints that are kept in memory
stored_bytes = {}   # of a user's checkpoints in the store below, all hosts together; 0: no bound
outstanding_operations = {}     # for each session

[checkpoint]                    # what ranks save in memory (docs/checkpoints.md)
keep_seconds = {}             # for how long it outlives the last rank of its job here
store = {}                      # folder, of mode 0700, in which the daemon stores checkpoints for
                                # tenants; the same one at all hosts. "": they use their own folders
store_keep = {}                  # how many of a job's stay there, beside ends of epochs
store_keep_seconds = {}      # and for how long after the last save or restore; 0: for good
store_bytes_per_second = {}      # at which a tenant's are written; 0: as fast as the disk

[log]
level = "{}"                    # error, warning, info, debug, trace
tenant_burst = {}              # lines that one tenant may cause at once,
tenant_lines_per_second = {}    # and in the long run; one line tells how many are left out

[events]                        # that tenants and operators hear, kept in the state directory
keep_bytes = {}             # of each tenant's, and of all for the operators
keep_seconds = {}           # and for how long
nats = [{}]                       # servers to publish them to, as tls://host:4222 (docs/nats.md)
nats_credentials = {}         # a .creds file, or one with USER:PASSWORD
nats_ca_file = {}             # who signs the servers' certificates; "": whom this host trusts
nats_subject_prefix = {}      # first part of all subjects
nats_keep_bytes = {}     # of a stream that the daemon makes,
nats_keep_seconds = {}      # and for how long it keeps an event

[http]                          # beside the Unix sockets, which are always there
listen = {}                   # an address for TCP, as 10.0.0.1:7401; callers need tokens
certificate_file = {}         # for TLS, which only loopback addresses may do without
key_file = {}
names = [{}]                      # by which callers reach it, beside localhost and the address

[profiler]                      # events of NCCL's own profiler that jobs tell of (docs/nccl-profiler.md)
events = [{}]

# The policy bounds what tenants get of what they ask for (docs/requirements.md). A daemon reads it
# anew on SIGHUP.
{}
# What clouds publish about this host: azure, aws, gcp or kubernetes (docs/sources.md).
{}
{}
[ras]                           # status and events for NCCL's own client, ncclras (docs/nccl-ras.md)
listen = {}                   # a loopback address, as 127.0.0.1:28028; "": nowhere

# Tenants share connections between hosts alike, whatever they send. A table for each one that is to
# have more than another, alike at all hosts; the weight of all others is 1, and their priority 0. Who
# has a higher priority, 3 at most, has all it wants first; the others share a thousandth meanwhile.
{})",
      TomlText(config.socket_path), config.socket_mode, TomlText(config.operator_socket_path),
      TomlText(config.operator_group), config.tenants.identity, TenantSocketsTemplate(config),
      TomlText(config.state_path), config.measure_again, Portable(config.workers, ProcessorsHere()),
      ProcessorsHere(), config.worker_placement, fmt::join(config.worker_cpus, ", "),
      config.engine_spin_us, config.inline_path.enabled, config.inline_path.registered_bytes,
      config.inline_path.heap_bytes, config.inline_path.stream_bytes,
      TomlText(config.cluster.address), TomlText(config.cluster.key_file),
      config.cluster.allow_unauthenticated, TomlText(config.cluster.fabric),
      TomlText(config.cluster.host), TomlText(config.cluster.controller),
      TomlText(config.cluster.congestion_control), config.cluster.dead_after_seconds,
      config.plans.policy, TomlText(config.plans.file), config.plans.reproducible,
      config.plans.compression, config.plans.compression_error_bound, config.plans.live,
      config.plans.least_gain, config.plans.switch_every_ms, config.costs.message_us,
      config.costs.handling_us, config.costs.wire_gbps, config.costs.memory_gbps,
      config.costs.shared_processors, config.costs.bucket_ms, config.sizing.enabled,
      config.sizing.places, config.sizing.look_every_seconds, config.sizing.answer_within_seconds,
      config.sizing.notice_seconds, config.sizing.settle_seconds, config.late_after_seconds,
      config.formation_timeout_seconds, config.quota.connections, config.quota.sessions,
      config.quota.communicators, config.quota.ranks, config.quota.unique_ids, config.quota.tickets,
      config.quota.newcomers, config.quota.regions,
      Portable(config.quota.region_bytes, MemoryHere()), MemoryHere(), config.quota.memory_bytes,
      config.quota.checkpoint_bytes, config.quota.stored_bytes, config.quota.outstanding_operations,
      config.checkpoint.keep_seconds, TomlText(config.checkpoint.store),
      config.checkpoint.store_keep, config.checkpoint.store_keep_seconds,
      config.checkpoint.store_bytes_per_second, config.log.level, config.log.tenant_burst,
      config.log.tenant_lines_per_second, config.events.keep_bytes, config.events.keep_seconds,
      TomlList(config.events.nats.servers), TomlText(config.events.nats.credentials_file),
      TomlText(config.events.nats.ca_file), TomlText(config.events.nats.subject_prefix),
      config.events.nats.keep_bytes, config.events.nats.keep_seconds, TomlText(config.http.listen),
      TomlText(config.http.certificate_file), TomlText(config.http.key_file),
      TomlList(config.http.names), TomlList(NamesOfProfilerEvents(config.profiler.events)),
      PolicyTemplate(config.policy), SourcesTemplate(config), NcclTemplate(config.nccl),
      TomlText(config.ras.listen), SharesTemplate(config));
}

}  // namespace harmonaize::daemon

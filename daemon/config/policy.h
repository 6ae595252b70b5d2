#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/requirements/requirements.h"

namespace harmonaize {
class TomlReader;
}  // namespace harmonaize

namespace harmonaize::daemon {

struct TenantsConfig;

/// The bounds of what the provider grants to the jobs of a tenant (docs/requirements.md). The
/// defaults give nothing that others would lack.
struct TenantPolicy {
  int64_t most_priority = 0;  ///< Highest priority.
  /// Most that is promised on a link to the floors of all the tenant's jobs together, in bytes per
  /// second; 0: none is granted.
  double most_bandwidth_floor = 0;
  /// Rate on a link that the tenant's jobs together do not exceed, in bytes per second; 0: no
  /// bound. Each job is granted it as its cap, unless it asks for a lower one.
  double most_bandwidth_cap = 0;
  /// Most ranks to which the tenant's elastic jobs grow together by offers of the daemon's own; 0:
  /// their share of the places.
  int64_t most_elastic_ranks = 0;
  int64_t most_processors = 0;  ///< Most workers that work for one job at a time; 0: all.
  /// Whether the engine keeps looking for work, where it would sleep otherwise, while there are
  /// jobs whose objective is latency, and the ranks of these jobs likewise. Looking takes a
  /// processor from others.
  bool spinning = false;
  bool compression = true;  ///< Whether sums may be compressed between hosts.
  /// Shortest late_after, in seconds. It bounds how often reports go to all hosts of a job.
  double least_late_after_seconds = 0.1;
  /// Shortest checkpoint.interval and checkpoint.most_lost_work, in seconds. It bounds how often
  /// advice goes to all hosts of a job, and how often storage is written.
  double least_checkpoint_interval_seconds = 10;
  /// Most changes of a job's requirements in a minute. Each may plan anew at all of its hosts.
  int64_t changes_per_minute = 12;
  /// Requirements that hold for a job where it has said nothing itself.
  Requirements defaults = {};
};

/// The provider's policy for all tenants. A daemon reads it anew on SIGHUP.
struct PolicyConfig {
  /// The policy of one tenant: what its table leaves out is as for all.
  struct OfTenant {
    std::string tenant;  ///< The user's name or number, or the name of a tenant with a socket.
    TenantPolicy policy;
    /// The tenant's TenantIdentity::across_hosts. FindPolicyTenants sets it; nullopt: nobody has
    /// the name.
    std::optional<uint32_t> number = {};
  };

  TenantPolicy all;
  std::vector<OfTenant> tenants;

  /// Returns the policy of a tenant, by TenantIdentity::across_hosts.
  const TenantPolicy& For(uint32_t tenant) const;
};

/// Reads [policy] and each [[policy.tenant]]. What is wrong is kept by the reader.
void ReadPolicy(TomlReader& reader, PolicyConfig* policy);

/// Returns the policy as TOML, with the meaning of each key.
std::string PolicyTemplate(const PolicyConfig& policy);

}  // namespace harmonaize::daemon

#pragma once

#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/config/policy.h"
#include "src/base/status.h"
#include "src/requirements/requirements.h"

namespace harmonaize::daemon {

/// Less than what a tenant has asked for, and why.
struct Shortfall {
  std::string key;      ///< "collectives.priority", or "collectives.override[1].priority".
  std::string asked;    ///< As a document has it.
  std::string granted;  ///< Likewise; "": nothing.
  std::string why;      ///< A sentence for people, without a full stop.
};

/// What a job gets of what it asks for.
struct Grant {
  Requirements granted;
  std::vector<Shortfall> shortfalls;  ///< In the order of the keys, and of the overrides.
  /// Whether the daemon's engine and the job's ranks keep looking for its operations.
  bool keeps_looking = false;
};

/// The means of this host that grants depend on. A plain value.
struct HostMeans {
  int64_t workers = 1;
  /// Largest floor that links can keep, in bytes per second, or why they can keep none.
  Result<double> most_floor = std::numeric_limits<double>::infinity();
};

/// The policy and the means of the host that decide what a tenant's jobs are granted. A plain
/// value, for any thread.
struct GrantBasis {
  std::shared_ptr<const TenantPolicy> policy;
  HostMeans host;

  /// Returns what would be granted to a job that says so.
  Grant For(const Requirements& statement) const;
};

/// Returns what a policy grants of `asked`, which includes the policy's defaults already.
Grant GrantOf(const Requirements& asked, const TenantPolicy& policy, const HostMeans& host);

}  // namespace harmonaize::daemon

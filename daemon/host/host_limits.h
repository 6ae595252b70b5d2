#pragma once

#include <cstdint>

#include "daemon/config/config.h"
#include "daemon/quota/holdings.h"

namespace harmonaize::daemon {

/// Resources of the host that this process may use.
struct HostCapacity {
  int64_t descriptors = 0;   ///< RLIMIT_NOFILE.
  int64_t mappings = 0;      ///< vm.max_map_count.
  int64_t memory_bytes = 0;  ///< The host's, or the smallest limit of the control groups it is in.
};

HostCapacity CapacityOfHost();

/// Returns the limits of what tenants may hold. The limits for all tenants leave the daemon what it
/// needs itself. The limits for each tenant are those of the configuration.
ResourceLimits LimitsOfHost(const Config& config, const HostCapacity& capacity);

}  // namespace harmonaize::daemon

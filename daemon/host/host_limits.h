#pragma once

#include <cstdint>

#include "daemon/config/config.h"
#include "daemon/quota/holdings.h"

namespace harmonaize::daemon {

/// What this process may take of its host.
struct HostCapacity {
  int64_t descriptors = 0;   ///< RLIMIT_NOFILE.
  int64_t mappings = 0;      ///< vm.max_map_count.
  int64_t memory_bytes = 0;  ///< Of the host, or the smallest limit of the control groups it is in.
};

HostCapacity CapacityOfHost();

/// What tenants may hold: of each resource all together so much that the daemon keeps what it needs
/// itself, and each as the configuration says, but no more than what is then left for all others.
ResourceLimits LimitsOfHost(const Config& config, const HostCapacity& capacity);

}  // namespace harmonaize::daemon

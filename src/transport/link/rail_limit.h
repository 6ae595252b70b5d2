#pragma once

#include <cstdint>
#include <vector>

namespace harmonaize::transport {

/// Limits what the jobs of one owner, or all of a tenant, may send together over one rail, while
/// others need its links more. Only TCP rails obey it.
struct OwnerLimit {
  uint32_t tenant = 0;
  uint64_t owner = 0;           ///< TenantShare::owner; 0: all of the tenant together.
  double bytes_per_second = 0;  ///< Above 0.
};
/// Limits of a rail, each owner once. All others may send as much as they can.
using RailLimits = std::vector<OwnerLimit>;

}  // namespace harmonaize::transport

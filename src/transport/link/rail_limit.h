#pragma once

#include <cstdint>
#include <vector>

namespace harmonaize::transport {

/// Limits what a tenant may send over one rail while others need its links more. Only TCP rails
/// obey it.
struct TenantLimit {
  uint32_t tenant = 0;
  double bytes_per_second = 0;  ///< Above 0.
};
/// Limits of a rail, each tenant once. All other tenants may send as much as they can.
using RailLimits = std::vector<TenantLimit>;

}  // namespace harmonaize::transport

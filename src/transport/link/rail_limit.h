#pragma once

#include <cstdint>
#include <vector>

namespace harmonaize::transport {

/// What a tenant may send over one rail, while others need its links more than it does. Only TCP
/// rails keep to it.
struct TenantLimit {
  uint32_t tenant = 0;
  double bytes_per_second = 0;  ///< Above 0.
};
/// Of a rail: each tenant once. All others may send as much as they can.
using RailLimits = std::vector<TenantLimit>;

}  // namespace harmonaize::transport

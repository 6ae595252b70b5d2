#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace harmonaize::daemon {

/// How many ranks the elastic jobs of one tenant could have together at most.
struct TenantDemand {
  uint32_t tenant = 0;
  int32_t most = 0;
};

/// Shares places out, by tenant: all have the same, but none more than it could use, and what one
/// does not use is the others' (max-min fairness). The shares add up to no more than the places.
std::map<uint32_t, int32_t> ShareOut(int32_t places, std::vector<TenantDemand> demands);

}  // namespace harmonaize::daemon

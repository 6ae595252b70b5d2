#include "daemon/elasticity/tenant_shares.h"

#include <algorithm>

namespace harmonaize::daemon {

std::map<uint32_t, int32_t> ShareOut(int32_t places, std::vector<TenantDemand> demands) {
  std::sort(demands.begin(), demands.end(), [](const TenantDemand& a, const TenantDemand& b) {
    return a.most != b.most ? a.most < b.most : a.tenant < b.tenant;
  });
  std::map<uint32_t, int32_t> shares;
  auto waiting = static_cast<int32_t>(demands.size());
  for (const TenantDemand& demand : demands) {
    const int32_t share = std::min(demand.most, places / waiting);
    shares[demand.tenant] = share;
    places -= share;
    --waiting;
  }
  return shares;
}

}  // namespace harmonaize::daemon

#include "daemon/tenant_activity.h"

#include <algorithm>

namespace harmonaize::daemon {

TenantActivity::Active* TenantActivity::Of(const Tenant& tenant) {
  const auto found = std::find_if(active_.begin(), active_.end(),
                                  [&](const Active& active) { return active.user == tenant.user; });
  if (found != active_.end()) return &*found;
  return &active_.emplace_back(Active{.user = tenant.user});
}

bool TenantActivity::Start(const Tenant& tenant, uint64_t now_ns) {
  std::erase_if(active_, [now_ns](const Active& active) {
    return active.under_way == 0 && now_ns - active.seen_ns > kLatelyNs;
  });
  Active* const active = Of(tenant);
  ++active->under_way;
  active->seen_ns = now_ns;
  return active_.size() > 1;
}

void TenantActivity::End(const Tenant& tenant, uint64_t now_ns) {
  Active* const active = Of(tenant);
  --active->under_way;
  active->seen_ns = now_ns;
}

}  // namespace harmonaize::daemon

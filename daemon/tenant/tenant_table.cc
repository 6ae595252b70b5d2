#include "daemon/tenant/tenant_table.h"

#include <fmt/format.h>

namespace harmonaize::daemon {

Tenant* TenantTable::Of(const TenantIdentity& identity) {
  const auto found = tenants_.find(identity.number);
  if (found != tenants_.end()) return found->second.get();
  auto tenant = std::make_unique<Tenant>(identity, accounts_->Of(identity.number, identity.name));
  tenant->weight = WeightOf(identity.across_hosts, shares_);
  return tenants_.emplace(identity.number, std::move(tenant)).first->second.get();
}

Tenant* TenantTable::AcrossHosts(uint32_t across_hosts) {
  return Of({across_hosts, across_hosts, across_hosts, fmt::format("uid {}", across_hosts)});
}

}  // namespace harmonaize::daemon

#include "daemon/tenant/tenant_table.h"

#include <fmt/format.h>

#include <utility>

namespace harmonaize::daemon {

Tenant* TenantTable::Of(const TenantIdentity& identity) {
  const auto found = tenants_.find(identity.number);
  if (found != tenants_.end()) return found->second.get();
  auto tenant = std::make_unique<Tenant>(identity, accounts_->Of(identity.number, identity.name));
  tenant->weight = WeightOf(identity.across_hosts, shares_);
  tenant->link_bounds = LinkBoundsOf(policy_.For(identity.across_hosts));
  Tenant* const added = tenants_.emplace(identity.number, std::move(tenant)).first->second.get();
  of_work_[identity.number] = added;
  of_work_.try_emplace(identity.across_hosts, added);
  return added;
}

void TenantTable::SetPolicy(PolicyConfig policy) {
  policy_ = std::move(policy);
  for (const auto& [number, tenant] : tenants_) {
    tenant->link_bounds = LinkBoundsOf(policy_.For(tenant->identity.across_hosts));
  }
}

Tenant* TenantTable::OfWork(uint32_t number) const {
  const auto found = of_work_.find(number);
  return found == of_work_.end() ? nullptr : found->second;
}

Tenant* TenantTable::AcrossHosts(uint32_t across_hosts) {
  return Of({across_hosts, across_hosts, across_hosts, fmt::format("uid {}", across_hosts)});
}

}  // namespace harmonaize::daemon

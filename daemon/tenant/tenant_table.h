#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "daemon/tenant/tenant.h"

namespace harmonaize::daemon {

/// All tenants that have been here, each with its account and the weight that the provider gave it.
/// Thread: engine.
class TenantTable {
 public:
  TenantTable(std::shared_ptr<Accounts> accounts, std::vector<ShareConfig> shares)
      : accounts_(std::move(accounts)), shares_(std::move(shares)) {}

  /// Returns the tenant's entry. The first call for a tenant makes it.
  Tenant* Of(const TenantIdentity& identity);
  /// Returns the entry of a tenant that another daemon speaks for, by TenantIdentity::across_hosts.
  Tenant* AcrossHosts(uint32_t across_hosts);

  /// By TenantIdentity::number.
  const std::map<uint32_t, std::unique_ptr<Tenant>>& all() const { return tenants_; }

 private:
  const std::shared_ptr<Accounts> accounts_;
  const std::vector<ShareConfig> shares_;
  std::map<uint32_t, std::unique_ptr<Tenant>> tenants_;
};

}  // namespace harmonaize::daemon

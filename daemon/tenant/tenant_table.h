#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "daemon/tenant/tenant.h"

namespace harmonaize::daemon {

/// All tenants that have been here, each with its account, the weight that the provider gave it,
/// and its bounds by the provider's policy. Thread: engine.
class TenantTable {
 public:
  TenantTable(std::shared_ptr<Accounts> accounts, std::vector<ShareConfig> shares)
      : accounts_(std::move(accounts)), shares_(std::move(shares)) {}

  /// Returns the tenant's entry. The first call for a tenant makes it.
  Tenant* Of(const TenantIdentity& identity);
  /// Returns the entry of a tenant that another daemon speaks for, by TenantIdentity::across_hosts.
  Tenant* AcrossHosts(uint32_t across_hosts);

  /// Has the bounds of all tenants follow from this policy, whose tenants were found
  /// (FindPolicyTenants).
  void SetPolicy(PolicyConfig policy);
  const PolicyConfig& policy() const { return policy_; }

  /// Returns the tenant that work of the executor was done for (Operands::tenant): it is known by
  /// its number on this host, or by that across hosts. Of several tenants with the latter it is the
  /// first. Returns nullptr if there is none.
  Tenant* OfWork(uint32_t number) const;

  /// Returns the tenant with this TenantIdentity::number; nullptr if it has not been here.
  Tenant* OfNumber(uint32_t number) const {
    const auto found = tenants_.find(number);
    return found == tenants_.end() ? nullptr : found->second.get();
  }

  const HostHoldings& host() const { return accounts_->host(); }
  /// By TenantIdentity::number.
  const std::map<uint32_t, std::unique_ptr<Tenant>>& all() const { return tenants_; }

 private:
  const std::shared_ptr<Accounts> accounts_;
  const std::vector<ShareConfig> shares_;
  PolicyConfig policy_;
  std::map<uint32_t, std::unique_ptr<Tenant>> tenants_;
  std::unordered_map<uint32_t, Tenant*> of_work_;
};

}  // namespace harmonaize::daemon

#include "daemon/tenant/tenant.h"

#include <fmt/format.h>
#include <pwd.h>

#include <algorithm>
#include <map>
#include <string>

#include "src/base/log.h"
#include "src/topology/estimates/share_out.h"

namespace harmonaize::daemon {

double WeightOf(uint32_t tenant, const std::vector<ShareConfig>& shares) {
  const auto found = std::find_if(shares.begin(), shares.end(),
                                  [&](const ShareConfig& share) { return share.tenant == tenant; });
  if (found == shares.end()) return 1;
  return found->weight * PriorityFactor(static_cast<int>(found->priority));
}

std::string UserName(uid_t user) {
  std::vector<char> buffer(4096);
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(user, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr) {
    return found->pw_name;
  }
  return fmt::format("uid {}", user);
}

std::vector<ShareConfig> FindTenants(std::vector<ShareConfig> shares,
                                     const TenantsConfig& tenants) {
  for (ShareConfig& share : shares) share.tenant = TenantNamed(share.user, tenants);
  return shares;
}

LinkBounds LinkBoundsOf(const TenantPolicy& policy) {
  LinkBounds bounds{policy.most_bandwidth_floor, policy.most_bandwidth_cap};
  if (bounds.most_cap > 0) bounds.most_floor = std::min(bounds.most_floor, bounds.most_cap);
  return bounds;
}

PolicyConfig FindPolicyTenants(PolicyConfig policy, const TenantsConfig& tenants) {
  std::map<uint32_t, std::string> named;
  for (PolicyConfig::OfTenant& one : policy.tenants) {
    one.number = TenantNamed(one.tenant, tenants);
    if (!one.number.has_value()) {
      Log(LogLevel::kWarning, kLogInit, "[[policy.tenant]] of '{}': there is no such user here",
          one.tenant);
      continue;
    }
    const auto [first, is_new] = named.emplace(*one.number, one.tenant);
    if (is_new) continue;
    Log(LogLevel::kWarning, kLogInit,
        "[[policy.tenant]] of '{}' counts for nothing: '{}' is the same tenant and comes before it",
        one.tenant, first->second);
  }
  return policy;
}

}  // namespace harmonaize::daemon

#include "daemon/promises/tenant_fields.h"

#include <algorithm>
#include <cstdint>

#include <nlohmann/json.hpp>

#include "src/events/event.h"

namespace harmonaize::daemon {

void SetTenant(const TenantIdentity& tenant, nlohmann::json* object) {
  (*object)["tenant"] = tenant.name;
  (*object)["tenant_number"] = tenant.number;
  (*object)["tenant_across_hosts"] = tenant.across_hosts;
  (*object)["user"] = tenant.user;
}

TenantIdentity TenantIn(RecordFields& fields) {
  const uint64_t number = fields.Count("tenant_number");
  const uint64_t across = fields.Count("tenant_across_hosts");
  const uint64_t user = fields.Count("user");
  fields.Expect(std::max({number, across, user}) <= UINT32_MAX);
  return {.number = static_cast<uint32_t>(number),
          .across_hosts = static_cast<uint32_t>(across),
          .user = static_cast<uid_t>(user),
          .name = fields.Text("tenant", kMostTenantBytes)};
}

}  // namespace harmonaize::daemon

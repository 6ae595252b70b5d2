#pragma once

#include <nlohmann/json_fwd.hpp>

#include "daemon/identity/tenant_identity.h"
#include "daemon/promises/record_fields.h"

namespace harmonaize::daemon {

/// Adds the fields by which a record says whose it is.
void SetTenant(const TenantIdentity& tenant, nlohmann::json* object);
/// Reads these fields.
TenantIdentity TenantIn(RecordFields& fields);

}  // namespace harmonaize::daemon

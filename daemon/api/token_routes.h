#pragma once

#include <memory>
#include <vector>

#include "daemon/api/api_services.h"
#include "daemon/config/config.h"
#include "daemon/http/http_router.h"

namespace harmonaize::daemon {

/// Returns the routes by which operators make, list and revoke tokens. A tenant that tokens are for
/// is a user of the host, by name or number, or the tenant of a socket (TenantsConfig).
std::vector<HttpRoute> TokenRoutes(const ApiServices& services, const TenantsConfig& tenants);

}  // namespace harmonaize::daemon

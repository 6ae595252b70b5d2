#pragma once

#include <vector>

#include "daemon/api/api_services.h"
#include "daemon/http/http_router.h"

namespace harmonaize::daemon {

/// Returns the routes by which operators make offers to jobs, and tenants read and answer them.
std::vector<HttpRoute> OfferRoutes(const ApiServices& services);

}  // namespace harmonaize::daemon

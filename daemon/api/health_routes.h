#pragma once

#include <vector>

#include "daemon/api/api_services.h"
#include "daemon/http/http_router.h"

namespace harmonaize::daemon {

/// Returns the routes by which others look after the daemon: whether it lives, and whether it can
/// serve, which say nothing else; and the OpenAPI document.
std::vector<HttpRoute> HealthRoutes(const ApiServices& services);

}  // namespace harmonaize::daemon

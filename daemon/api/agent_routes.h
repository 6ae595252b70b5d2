#pragma once

#include <vector>

#include "daemon/api/api_services.h"
#include "daemon/http/http_router.h"

namespace harmonaize::daemon {

/// Returns the routes of agents, by which tenants' launchers take part in elastic jobs.
std::vector<HttpRoute> AgentRoutes(const ApiServices& services);

}  // namespace harmonaize::daemon

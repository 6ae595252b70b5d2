#pragma once

#include <vector>

#include "daemon/api/api_services.h"
#include "daemon/http/http_router.h"

namespace harmonaize::daemon {

/// Returns the routes of jobs' tickets: making, listing and burning them.
std::vector<HttpRoute> TicketRoutes(const ApiServices& services);

}  // namespace harmonaize::daemon

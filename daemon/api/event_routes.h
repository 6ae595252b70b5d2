#pragma once

#include <vector>

#include "daemon/api/api_services.h"
#include "daemon/http/http_router.h"

namespace harmonaize::daemon {

/// Returns the routes about events: to read them in pages, to hear them as they come, and the
/// schemas of their data.
std::vector<HttpRoute> EventRoutes(const ApiServices& services);

}  // namespace harmonaize::daemon

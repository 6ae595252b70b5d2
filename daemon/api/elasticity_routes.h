#pragma once

#include <vector>

#include "daemon/api/api_services.h"
#include "daemon/http/http_router.h"

namespace harmonaize::daemon {

/// Returns the routes by which operators see how the sizes of elastic jobs follow the load, and
/// schedulers say which jobs wait for places.
std::vector<HttpRoute> ElasticityRoutes(const ApiServices& services);

}  // namespace harmonaize::daemon

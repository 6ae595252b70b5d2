#pragma once

#include <vector>

#include "daemon/api/api_services.h"
#include "daemon/http/http_router.h"

namespace harmonaize::daemon {

/// Returns the routes about what NCCL's profiler plugin tells of jobs: of all that the caller may
/// see, and of one.
std::vector<HttpRoute> ProfileRoutes(const ApiServices& services);

}  // namespace harmonaize::daemon

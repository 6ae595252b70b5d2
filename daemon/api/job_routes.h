#pragma once

#include <vector>

#include "daemon/api/api_services.h"
#include "daemon/http/http_router.h"

namespace harmonaize::daemon {

/// Returns the routes about jobs: a list of them, one of them, its communicators, its operations
/// that wait, its ranks, and what keeps its operations from ending; for operators, the last of all
/// jobs.
std::vector<HttpRoute> JobRoutes(const ApiServices& services);

}  // namespace harmonaize::daemon

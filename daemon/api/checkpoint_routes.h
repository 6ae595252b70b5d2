#pragma once

#include <vector>

#include "daemon/api/api_services.h"
#include "daemon/http/http_router.h"

namespace harmonaize::daemon {

/// Returns the routes about when a job saves: what it is advised, what it tells of its checkpoints,
/// and that it is to save now.
std::vector<HttpRoute> CheckpointRoutes(const ApiServices& services);

}  // namespace harmonaize::daemon

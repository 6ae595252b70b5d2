#pragma once

#include <vector>

#include "daemon/api/api_services.h"
#include "daemon/config/config.h"
#include "daemon/http/http_router.h"

namespace harmonaize::daemon {

/// Returns the routes by which tenants say what they want for their jobs and hear what was granted,
/// and operators set the policy that grants go by.
std::vector<HttpRoute> RequirementRoutes(const ApiServices& services, const Config& config);

}  // namespace harmonaize::daemon

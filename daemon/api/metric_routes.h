#pragma once

#include <vector>

#include "daemon/api/api_services.h"
#include "daemon/http/http_router.h"

namespace harmonaize::daemon {

/// Returns the routes about what the daemon does and what it is used for: /metrics in Prometheus'
/// text format, for operators and monitoring systems, and /v1/usage, for bills.
std::vector<HttpRoute> MetricsRoutes(const ApiServices& services);

}  // namespace harmonaize::daemon

#pragma once

#include <vector>

#include "daemon/api/api_services.h"
#include "daemon/http/http_router.h"

namespace harmonaize::daemon {

/// Returns the routes by which tenants answer events that have a deadline, and read what was
/// promised to their jobs and kept; operators read all promises.
std::vector<HttpRoute> NoticeRoutes(const ApiServices& services);

}  // namespace harmonaize::daemon

#pragma once

#include <vector>

#include "daemon/api/api_services.h"
#include "daemon/http/http_router.h"
#include "daemon/page/status_page.h"

namespace harmonaize::daemon {

/// Returns the route of the status page, which everybody may read, and those that it needs besides
/// the others: who the caller is, and the provider's fabric.
std::vector<HttpRoute> PageRoutes(const ApiServices& services, StatusPage page);

}  // namespace harmonaize::daemon

#pragma once

#include <vector>

#include "daemon/api/api_services.h"
#include "daemon/http/http_router.h"

namespace harmonaize::daemon {

/// Returns the routes of operators about this host: tenants, links, plans, and what is announced
/// for the host, with the answers of jobs; and those by which operators announce something, drain
/// the host, or tell jobs of an event.
std::vector<HttpRoute> OperatorRoutes(const ApiServices& services);

}  // namespace harmonaize::daemon

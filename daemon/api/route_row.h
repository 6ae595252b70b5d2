#pragma once

#include <memory>
#include <span>
#include <vector>

#include "daemon/api/api_services.h"
#include "daemon/http/http_router.h"

namespace harmonaize::daemon {

/// A route as a line of a table.
struct RouteRow {
  const char* method;
  const char* pattern;
  HttpAudience audience;
  void (*serve)(const ApiServices&, std::shared_ptr<HttpExchange>, const HttpParameters&);
};

/// Returns the route, which serves requests with these services.
HttpRoute MakeRoute(const ApiServices& services, const RouteRow& row);
std::vector<HttpRoute> MakeRoutes(const ApiServices& services, std::span<const RouteRow> rows);

}  // namespace harmonaize::daemon

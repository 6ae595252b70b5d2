#include "daemon/api/route_row.h"

#include <utility>

namespace harmonaize::daemon {

HttpRoute MakeRoute(const ApiServices& services, const RouteRow& row) {
  return {.method = row.method,
          .pattern = row.pattern,
          .audience = row.audience,
          .serve = [services, serve = row.serve](std::shared_ptr<HttpExchange> exchange,
                                                 const HttpParameters& parameters) {
            serve(services, std::move(exchange), parameters);
          }};
}

std::vector<HttpRoute> MakeRoutes(const ApiServices& services, std::span<const RouteRow> rows) {
  std::vector<HttpRoute> routes;
  for (const RouteRow& row : rows) routes.push_back(MakeRoute(services, row));
  return routes;
}

}  // namespace harmonaize::daemon

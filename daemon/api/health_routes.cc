#include "daemon/api/health_routes.h"

#include <utility>

#include "daemon/api/openapi.h"
#include "daemon/job_events/event_rooms.h"

namespace harmonaize::daemon {
namespace {

HttpResponse Word(int status, std::string_view word) {
  return {.status = status,
          .content_type = "text/plain; charset=utf-8",
          .body = std::string(word) + "\n"};
}

}  // namespace

std::vector<HttpRoute> HealthRoutes(const ApiServices& services) {
  // The HTTP thread answers this one, so it lives.
  const auto lives = [](std::shared_ptr<HttpExchange> exchange, const HttpParameters&) {
    exchange->Respond(Word(200, "ok"));
  };
  // The engine answers this one, so operations are carried out. A daemon that drains is not ready:
  // whoever places jobs by this goes elsewhere.
  const auto serves = [gate = services.gate](std::shared_ptr<HttpExchange> exchange,
                                             const HttpParameters&) {
    const bool asked = gate->Post([exchange](EngineRooms& rooms) {
      const bool drains = rooms.events().drain().state() != Drain::State::kServing;
      exchange->Respond(drains ? Word(503, "draining") : Word(200, "ok"));
    });
    if (!asked) exchange->Respond(Word(503, "ending"));
  };
  return {
      {.method = "GET", .pattern = "/healthz", .audience = HttpAudience::kAnybody, .serve = lives},
      {.method = "GET", .pattern = "/readyz", .audience = HttpAudience::kAnybody, .serve = serves},
      {.method = "GET",
       .pattern = "/v1/openapi.json",
       .audience = HttpAudience::kTenants,
       .serve = [](std::shared_ptr<HttpExchange> exchange, const HttpParameters&) {
         exchange->Respond({.body = kOpenApi});
       }}};
}

}  // namespace harmonaize::daemon

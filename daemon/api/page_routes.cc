#include "daemon/api/page_routes.h"

#include <memory>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "daemon/api/engine_answer.h"
#include "daemon/api/json_body.h"
#include "daemon/cluster/cluster.h"
#include "daemon/http/http_token.h"
#include "src/planner/fabric_model.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

HttpResponse ResponseWith(const StatusPage& page) {
  return {.content_type = "text/html; charset=utf-8",
          .body = page.document,
          .headers = {{"Content-Security-Policy", page.policy},
                      {"Referrer-Policy", "no-referrer"},
                      {"Cross-Origin-Opener-Policy", "same-origin"},
                      {"Cross-Origin-Resource-Policy", "same-origin"},
                      {"X-Frame-Options", "DENY"}}};
}

HttpResponse Describe(const HttpCaller& caller) {
  const json description = {
      {"scope", ScopeName(caller.scope)},
      {"tenant", caller.scope == HttpScope::kTenant ? json(caller.tenant.name) : json()}};
  return {.body = DumpJson(description)};
}

json Describe(const Fabric& fabric) {
  json nodes = json::array();
  for (const Node& node : fabric.nodes) {
    nodes.push_back({{"name", node.name}, {"kind", NodeKindName(node.kind)}});
  }
  const auto name = [&](const LinkEnd& end) {
    return fabric.nodes[static_cast<size_t>(end.node)].name;
  };
  json links = json::array();
  for (const Link& link : fabric.links) {
    links.push_back(
        {{"name", link.name}, {"from", name(link.ends[0])}, {"to", name(link.ends[1])}});
  }
  return {{"name", fabric.name}, {"nodes", std::move(nodes)}, {"links", std::move(links)}};
}

Result<json> FabricOf(EngineRooms& rooms) {
  const Cluster* const cluster = rooms.report_sources().cluster;
  const bool known = cluster != nullptr && cluster->fabric() != nullptr;
  json description = Describe(known ? cluster->fabric()->fabric() : Fabric{});
  description["host"] = cluster == nullptr ? "" : cluster->host_name();
  return description;
}

}  // namespace

std::vector<HttpRoute> PageRoutes(const ApiServices& services, StatusPage page) {
  const auto shared = std::make_shared<const StatusPage>(std::move(page));
  return {{.method = "GET",
           .pattern = "/",
           .audience = HttpAudience::kAnybody,
           .serve = [shared](std::shared_ptr<HttpExchange> exchange,
                             const HttpParameters&) { exchange->Respond(ResponseWith(*shared)); }},
          {.method = "GET",
           .pattern = "/v1/whoami",
           .audience = HttpAudience::kTenants,
           .serve =
               [](std::shared_ptr<HttpExchange> exchange, const HttpParameters&) {
                 exchange->Respond(Describe(exchange->request().caller));
               }},
          {.method = "GET",
           .pattern = "/v1/fabric",
           .audience = HttpAudience::kOperators,
           .serve = [services](std::shared_ptr<HttpExchange> exchange, const HttpParameters&) {
             AnswerFromEngine(services, std::move(exchange), FabricOf);
           }}};
}

}  // namespace harmonaize::daemon

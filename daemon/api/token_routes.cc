#include "daemon/api/token_routes.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "daemon/api/json_body.h"
#include "daemon/http/token_store.h"
#include "src/base/time_text.h"
#include "src/events/event.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

/// Days for which a token holds unless its maker says otherwise.
constexpr double kUsualDays = 30;

std::string TimeOf(int64_t unix_seconds) {
  return TimeText(unix_seconds * 1'000'000'000);
}

json Describe(const HttpToken& token) {
  return {{"id", token.id},
          {"scope", ScopeName(token.scope)},
          {"tenant", token.scope == HttpScope::kTenant ? json(token.tenant.name) : json()},
          {"note", token.note},
          {"created", TimeOf(token.created)},
          {"expires", TimeOf(token.expires)}};
}

/// Returns the tenant that a name stands for. A container of identity "cgroup" has no lasting name.
Result<TenantIdentity> TenantFor(const std::string& name, const TenantsConfig& tenants) {
  const std::optional<uint32_t> number = TenantNamed(name, tenants);
  if (!number.has_value()) {
    return InvalidArgument(
        "there is no tenant '{}': it is a user's name or number{}", name,
        tenants.identity == "socket" ? ", or the name of a tenant's socket" : "");
  }
  const bool has_socket =
      std::any_of(tenants.sockets.begin(), tenants.sockets.end(),
                  [&](const TenantsConfig::Socket& socket) { return socket.name == name; });
  return TenantIdentity{.number = *number,
                        .across_hosts = *number,
                        .user = has_socket ? 0 : *number,
                        .name = has_socket ? name : fmt::format("uid {}", *number)};
}

Result<TokenOrder> OrderIn(const std::string& text, const TenantsConfig& tenants) {
  static constexpr std::string_view kFields[] = {"scope", "tenant", "days", "note"};
  JsonBody body(text, kFields);
  body.Need("scope", "tenant, operator, operator-read-only or metrics");
  const std::optional<std::string> scope = body.Text("scope", 64);
  const std::optional<std::string> tenant = body.Text("tenant", 256);
  const double days = body.Number("days", 0.001, 366).value_or(kUsualDays);
  TokenOrder order{.seconds = static_cast<int64_t>(days * 86400),
                   .note = body.Text("note", kMostNoteBytes).value_or("")};
  HZ_RETURN_IF_ERROR(body.status());
  HZ_ASSIGN_OR_RETURN(order.scope, ScopeNamed(*scope));
  const bool of_tenant = order.scope == HttpScope::kTenant;
  if (of_tenant != tenant.has_value()) {
    return InvalidArgument("{}", of_tenant ? "a token of scope 'tenant' needs 'tenant', whose it is"
                                           : "only a token of scope 'tenant' has a tenant");
  }
  if (of_tenant) {
    HZ_ASSIGN_OR_RETURN(order.tenant, TenantFor(*tenant, tenants));
  }
  return order;
}

HttpResponse Created(const Result<NewToken>& made) {
  if (!made.ok()) return HttpProblem(made.status());
  json document = Describe(made->token);
  document["token"] = made->secret;
  return {.status = 201, .body = DumpJson(document)};
}

}  // namespace

std::vector<HttpRoute> TokenRoutes(const ApiServices& services, const TenantsConfig& tenants) {
  const std::shared_ptr<TokenStore> store = services.tokens;
  const auto list = [store](std::shared_ptr<HttpExchange> exchange, const HttpParameters&) {
    json tokens = json::array();
    for (const HttpToken& token : store->List()) tokens.push_back(Describe(token));
    exchange->Respond({.body = DumpJson({{"tokens", std::move(tokens)}})});
  };
  // Files are written on the thread for slow work, not on that of the connections.
  const auto create = [store, tenants, work = services.work](std::shared_ptr<HttpExchange> exchange,
                                                             const HttpParameters&) {
    work->Post([store, tenants, exchange = std::move(exchange)] {
      const Result<TokenOrder> order = OrderIn(exchange->request().body, tenants);
      exchange->Respond(order.ok() ? Created(store->Create(*order)) : HttpProblem(order.status()));
    });
  };
  const auto revoke = [store, work = services.work](std::shared_ptr<HttpExchange> exchange,
                                                    const HttpParameters& parameters) {
    work->Post([store, id = parameters.at("id"), exchange = std::move(exchange)] {
      const Status revoked = store->Revoke(id);
      if (revoked.code() == Code::kInvalidArgument) {
        return exchange->Respond(HttpProblem(404, revoked.message()));
      }
      if (!revoked.ok()) return exchange->Respond(HttpProblem(revoked));
      exchange->Respond({.status = 204, .content_type = "", .body = ""});
    });
  };
  return {{.method = "GET",
           .pattern = "/v1/tokens",
           .audience = HttpAudience::kOperators,
           .serve = list},
          {.method = "POST",
           .pattern = "/v1/tokens",
           .audience = HttpAudience::kOperators,
           .serve = create},
          {.method = "DELETE",
           .pattern = "/v1/tokens/{id}",
           .audience = HttpAudience::kOperators,
           .serve = revoke}};
}

}  // namespace harmonaize::daemon

#include "daemon/api/agent_routes.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "daemon/agents/agents.h"
#include "daemon/api/engine_answer.h"
#include "daemon/api/json_body.h"
#include "daemon/api/notice_documents.h"
#include "daemon/api/offer_documents.h"
#include "daemon/api/route_row.h"
#include "daemon/jobs/job_table.h"
#include "daemon/offers/offers.h"
#include "daemon/tenant/tenant.h"
#include "daemon/tenant/tenant_table.h"
#include "src/base/clean_text.h"
#include "src/ipc/ticket.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

constexpr std::string_view kIdPrefix = "agent-";
/// Longest name of a job, in bytes: as of HARMONAIZE_JOB.
constexpr size_t kMostJobNameBytes = 63;
/// Most places of an agent: as many ranks as a host can have of one communicator.
constexpr double kMostPlaces = kMostOfferedRanks;

/// Seconds before ranks have to have left at which an agent stops those that have not left by
/// themselves.
constexpr double kLeaveWithinSeconds = 2;

std::string IdOf(uint64_t number) {
  return fmt::format("{}{:016x}", kIdPrefix, number);
}

/// Returns the number of an id; 0, which no agent has, for another text.
uint64_t NumberOf(std::string_view id) {
  if (!id.starts_with(kIdPrefix)) return 0;
  id.remove_prefix(kIdPrefix.size());
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), number, 16);
  return error == std::errc() && end == id.data() + id.size() ? number : 0;
}

std::string_view NameOf(AgentReport::Standing standing) {
  constexpr std::string_view kNames[kAgentStandingCount] = {"waiting", "asking", "attached"};
  return kNames[static_cast<size_t>(standing)];
}

/// Returns the agent with those of `offers`, which has its tenant's, that were made to its job at
/// this host and have not ended: these are what it acts on.
json DescribeAgent(EngineRooms& rooms, const AgentReport& agent, const std::vector<Offer>& offers,
                   bool for_operators) {
  json of_job = json::array();
  for (const Offer& offer : offers) {
    const bool is_of_job = offer.job == agent.job->id && !offer.has_ended() &&
                           offer.tenant.name == agent.job->tenant->identity.name;
    if (is_of_job && rooms.offers().IsOwn(offer.id)) {
      of_job.push_back(Describe(offer, for_operators));
    }
  }
  json document = {{"id", IdOf(agent.number)},
                   {"job", agent.job->id.text()},
                   {"name", agent.job->name},
                   {"standing", NameOf(agent.standing)},
                   {"problem", nullptr},
                   {"places", agent.places},
                   {"ranks_here", agent.ranks_here},
                   {"ranks", agent.ranks},
                   {"began", TimeOrNull(agent.began_seconds)},
                   {"lease_seconds", OwnAgents::kLeaseSeconds},
                   {"gone_in_seconds", agent.gone_seconds},
                   {"has_ticket", agent.has_ticket},
                   {"ties", agent.ties},
                   {"offers", std::move(of_job)},
                   {"leave", rooms.offers().ProcessesToLeave(*agent.job, kLeaveWithinSeconds)}};
  if (!agent.problem.ok()) document["problem"] = agent.problem.message();
  if (for_operators) document["tenant"] = agent.job->tenant->name();
  return document;
}

/// Returns an agent of another host. Which host that is operators alone are told.
json Describe(const KnownAgentReport& agent, bool for_operators) {
  json document = {{"job", agent.job.text()},
                   {"name", agent.job_name},
                   {"places", agent.places},
                   {"gone_in_seconds", agent.gone_seconds}};
  if (for_operators) {
    document["tenant"] = agent.tenant;
    document["address"] = agent.address;
  }
  return document;
}

/// Returns the caller's agent, as it reads of itself.
Result<json> OwnAgent(EngineRooms& rooms, const TenantIdentity& tenant, uint64_t number) {
  HZ_ASSIGN_OR_RETURN(const AgentReport agent, rooms.agents().own().Find(tenant.number, number));
  return DescribeAgent(rooms, agent, rooms.offers().All(&tenant), false);
}

/// Reads a body. The job is known already where an agent is renewed.
Result<AgentOrder> AgentOrderIn(const std::string& text, bool names_job) {
  static constexpr std::string_view kFields[] = {"job", "places", "ticket"};
  JsonBody body(text, std::span(kFields).subspan(names_job ? 0 : 1));
  AgentOrder order;
  if (names_job) {
    body.Need("job", "the job's name");
    order.job = CleanText(body.Text("job", kMostJobNameBytes).value_or(""), kMostJobNameBytes);
    if (body.status().ok() && order.job.empty()) {
      body.Fail(InvalidArgument("'job' is the job's name, and is empty"));
    }
  }
  body.Need("places", "how many ranks the agent would start now");
  const double places = body.Number("places", 0, kMostPlaces).value_or(0);
  if (places != std::floor(places)) body.Fail(InvalidArgument("'places' is a whole number"));
  order.places = static_cast<int>(places);
  order.ticket = body.Text("ticket", kTicketTextBytes).value_or("");
  HZ_RETURN_IF_ERROR(body.status());
  return order;
}

void ServeNewAgent(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
                   const HttpParameters& /*parameters*/) {
  const HttpCaller caller = exchange->request().caller;
  if (caller.is_operator()) {
    return exchange->Respond(
        HttpProblem(403, "an operator does not act as a tenant: the job's own user has agents"));
  }
  const Result<AgentOrder> order = AgentOrderIn(exchange->request().body, true);
  if (!order.ok()) return exchange->Respond(HttpProblem(order.status()));
  AnswerLater(services, std::move(exchange), 201,
              [tenant = caller.tenant, order = *order](EngineRooms& rooms, AnswerDone done) {
                const Result<uint64_t> number =
                    rooms.agents().Add(rooms.tenants().Of(tenant), order);
                done(number.ok() ? OwnAgent(rooms, tenant, *number) : number.status());
              });
}

/// Acts on the caller's agent in the path, and answers with it.
using ActOnAgent = std::function<Status(EngineRooms&, const Tenant&, uint64_t number)>;

void ServeAct(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
              const HttpParameters& parameters, ActOnAgent act) {
  const TenantIdentity tenant = exchange->request().caller.tenant;
  const uint64_t number = NumberOf(parameters.at("agent"));
  AnswerFromEngine(services, std::move(exchange),
                   [tenant, number, act = std::move(act)](EngineRooms& rooms) -> Result<json> {
                     HZ_RETURN_IF_ERROR(act(rooms, *rooms.tenants().Of(tenant), number));
                     return OwnAgent(rooms, tenant, number);
                   });
}

void ServeRenewal(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
                  const HttpParameters& parameters) {
  const Result<AgentOrder> order = AgentOrderIn(exchange->request().body, false);
  if (!order.ok()) return exchange->Respond(HttpProblem(order.status()));
  ServeAct(services, std::move(exchange), parameters,
           [order = *order](EngineRooms& rooms, const Tenant& tenant, uint64_t number) {
             return rooms.agents().own().Renew(tenant, number, order);
           });
}

void ServeAgent(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
                const HttpParameters& parameters) {
  ServeAct(services, std::move(exchange), parameters,
           [](EngineRooms&, const Tenant&, uint64_t) { return Status::Ok(); });
}

void ServeEnd(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
              const HttpParameters& parameters) {
  const TenantIdentity tenant = exchange->request().caller.tenant;
  const uint64_t number = NumberOf(parameters.at("agent"));
  AnswerFromEngine(
      services, std::move(exchange), [tenant, number](EngineRooms& rooms) -> Result<json> {
        HZ_RETURN_IF_ERROR(rooms.agents().own().Remove(*rooms.tenants().Of(tenant), number));
        return json{{"id", IdOf(number)}};
      });
}

void ServeAgents(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
                 const HttpParameters& /*parameters*/) {
  const HttpCaller caller = exchange->request().caller;
  AnswerWithMaker(services, std::move(exchange), [caller](EngineRooms& rooms) {
    const bool for_operators = caller.is_operator();
    std::optional<uint32_t> tenant;
    if (!for_operators) tenant = caller.tenant.number;
    const std::vector<Offer> offers = rooms.offers().All(for_operators ? nullptr : &caller.tenant);
    json list = json::array();
    for (const AgentReport& agent : rooms.agents().own().All(tenant)) {
      list.push_back(DescribeAgent(rooms, agent, offers, for_operators));
    }
    return DocumentMaker(
        [list = std::move(list), known = rooms.agents().known().All(tenant), for_operators] {
          json elsewhere = json::array();
          for (const KnownAgentReport& agent : known) {
            elsewhere.push_back(Describe(agent, for_operators));
          }
          return json{{"agents", list}, {"elsewhere", std::move(elsewhere)}};
        });
  });
}

}  // namespace

std::vector<HttpRoute> AgentRoutes(const ApiServices& services) {
  constexpr HttpAudience kAnyTenant = HttpAudience::kTenants;
  static constexpr RouteRow kRows[] = {{"GET", "/v1/agents", kAnyTenant, ServeAgents},
                                       {"POST", "/v1/agents", kAnyTenant, ServeNewAgent},
                                       {"GET", "/v1/agents/{agent}", kAnyTenant, ServeAgent},
                                       {"PUT", "/v1/agents/{agent}", kAnyTenant, ServeRenewal},
                                       {"DELETE", "/v1/agents/{agent}", kAnyTenant, ServeEnd}};
  return MakeRoutes(services, kRows);
}

}  // namespace harmonaize::daemon

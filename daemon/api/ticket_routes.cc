#include "daemon/api/ticket_routes.h"

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "daemon/api/engine_answer.h"
#include "daemon/api/json_body.h"
#include "daemon/api/named_job.h"
#include "daemon/api/route_row.h"
#include "daemon/communicator/communicator.h"
#include "daemon/formation/membership.h"
#include "daemon/jobs/job_table.h"
#include "daemon/tenant/tenant.h"
#include "src/base/time_text.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

/// Uses of a ticket, and the seconds for which it holds, unless its maker says otherwise.
constexpr double kUsualUses = 1;
constexpr double kUsualSeconds = 3600;
// Bounds of the numbers of a body. The home of the job has the last word (TicketHome).
constexpr double kMostUses = 1 << 20;
constexpr double kLeastSeconds = 0.001;
constexpr double kMostSeconds = 30 * 86400.0;

std::string TimeOf(double unix_seconds) {
  return TimeText(static_cast<int64_t>(unix_seconds * 1e9));
}

json Describe(const TicketView& ticket) {
  return {{"id", ticket.id},
          {"uses", ticket.uses},
          {"made", TimeOf(ticket.made)},
          {"expires", TimeOf(ticket.expires)}};
}

json DescribeList(const TicketsMessage& answer) {
  json tickets = json::array();
  for (const TicketView& ticket : answer.tickets) tickets.push_back(Describe(ticket));
  return {{"tickets", std::move(tickets)}, {"more", answer.more}, {"waiting", answer.waiting}};
}

/// Returns the way to the tickets of the job in the path.
Result<TicketClient::Way> FindWay(EngineRooms& rooms, const HttpCaller& caller,
                                  const std::string& which) {
  std::optional<uint32_t> tenant;
  if (!caller.is_operator()) tenant = caller.tenant.number;
  HZ_ASSIGN_OR_RETURN(const Job* const job, NamedJob(rooms, tenant, which));
  return rooms.membership().tickets().WayTo(*job);
}

/// Asks something about the tickets of a job, and hands on the answer.
using AskTickets = std::function<void(EngineRooms&, const TicketClient::Way&, AnswerDone)>;

void ServeAsk(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
              const std::string& which, int status, AskTickets ask) {
  const HttpCaller caller = exchange->request().caller;
  AnswerLater(services, std::move(exchange), status,
              [caller, which, ask = std::move(ask)](EngineRooms& rooms, AnswerDone done) {
                const Result<TicketClient::Way> found = FindWay(rooms, caller, which);
                if (!found.ok()) return done(found.status());
                ask(rooms, *found, std::move(done));
              });
}

/// Returns what answers with a list.
TicketClient::Done ListTo(AnswerDone done) {
  return [done = std::move(done)](const Result<TicketsMessage>& answer) {
    if (!answer.ok()) return done(answer.status());
    done(DescribeList(*answer));
  };
}

struct TicketOrder {
  int uses = 0;
  double seconds = 0;
};

Result<TicketOrder> OrderIn(const std::string& text) {
  static constexpr std::string_view kFields[] = {"uses", "seconds"};
  JsonBody body(text.empty() ? "{}" : text, kFields);
  const double uses = body.Number("uses", 1, kMostUses).value_or(kUsualUses);
  const double seconds =
      body.Number("seconds", kLeastSeconds, kMostSeconds).value_or(kUsualSeconds);
  HZ_RETURN_IF_ERROR(body.status());
  if (std::floor(uses) != uses) {
    return InvalidArgument("'uses' must be a whole number, and is {:g}", uses);
  }
  return TicketOrder{static_cast<int>(uses), seconds};
}

void ServeMake(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
               const HttpParameters& parameters) {
  if (exchange->request().caller.is_operator()) {
    return exchange->Respond(
        HttpProblem(403, "an operator does not act as a tenant: the job's own user makes tickets"));
  }
  const Result<TicketOrder> order = OrderIn(exchange->request().body);
  if (!order.ok()) return exchange->Respond(HttpProblem(order.status()));
  ServeAsk(services, std::move(exchange), parameters.at("job"), 201,
           [order = *order](EngineRooms& rooms, const TicketClient::Way& way, AnswerDone done) {
             rooms.membership().tickets().Make(
                 way, true, order.uses, order.seconds,
                 [done = std::move(done)](const Result<TicketClient::Made>& made) {
                   if (!made.ok()) return done(made.status());
                   json document = Describe(made->view);
                   document["ticket"] = made->text;
                   done(std::move(document));
                 });
           });
}

void ServeList(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
               const HttpParameters& parameters) {
  ServeAsk(services, std::move(exchange), parameters.at("job"), 200,
           [](EngineRooms& rooms, const TicketClient::Way& way, AnswerDone done) {
             rooms.membership().tickets().List(way, ListTo(std::move(done)));
           });
}

void ServeBurn(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
               const HttpParameters& parameters) {
  ServeAsk(services, std::move(exchange), parameters.at("job"), 200,
           [](EngineRooms& rooms, const TicketClient::Way& way, AnswerDone done) {
             if (way.communicator == nullptr) {
               return done(InvalidUsage(
                   "the job has an agent alone on this host: burn its tickets where it has ranks"));
             }
             rooms.membership().tickets().Burn(*way.communicator, ListTo(std::move(done)));
           });
}

/// Answers an operator with the tickets of all jobs that have their home here.
void ServeAll(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
              const HttpParameters& /*parameters*/) {
  AnswerFromEngine(services, std::move(exchange), [](EngineRooms& rooms) -> Result<json> {
    json jobs = json::array();
    for (const auto& [key, job] : rooms.jobs().all()) {
      const TicketsMessage kept = rooms.membership().tickets_here(*job);
      if (kept.tickets.empty() && kept.waiting == 0) continue;
      json one = DescribeList(kept);
      one["job"] = job->id.text();
      one["name"] = job->name;
      one["tenant"] = job->tenant->name();
      jobs.push_back(std::move(one));
    }
    return json{{"jobs", std::move(jobs)}};
  });
}

}  // namespace

std::vector<HttpRoute> TicketRoutes(const ApiServices& services) {
  static constexpr RouteRow kRows[] = {
      {"GET", "/v1/jobs/{job}/tickets", HttpAudience::kTenants, ServeList},
      {"POST", "/v1/jobs/{job}/tickets", HttpAudience::kTenants, ServeMake},
      {"DELETE", "/v1/jobs/{job}/tickets", HttpAudience::kTenants, ServeBurn},
      {"GET", "/v1/tickets", HttpAudience::kOperators, ServeAll}};
  return MakeRoutes(services, kRows);
}

}  // namespace harmonaize::daemon

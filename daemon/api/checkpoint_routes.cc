#include "daemon/api/checkpoint_routes.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "daemon/api/checkpoint_documents.h"
#include "daemon/api/engine_answer.h"
#include "daemon/api/json_body.h"
#include "daemon/api/named_job.h"
#include "daemon/api/route_row.h"
#include "daemon/checkpoint/checkpoint_keeper.h"
#include "daemon/job_events/event_rooms.h"
#include "daemon/jobs/job_table.h"
#include "daemon/tenant/tenant.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

/// Returns the job that the path names: the caller's own or, for operators, anybody's.
Result<Job*> CallersJob(EngineRooms& rooms, const HttpCaller& caller, const std::string& which) {
  std::optional<uint32_t> tenant;
  if (!caller.is_operator()) tenant = caller.tenant.number;
  return NamedJob(rooms, tenant, which);
}

json AdviceOf(EngineRooms& rooms, const Job& job) {
  return AdviceDocument(job, rooms.checkpoint_advisor().AdviceFor(job));
}

void ServeAdvice(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
                 const HttpParameters& parameters) {
  const HttpCaller caller = exchange->request().caller;
  AnswerFromEngine(services, std::move(exchange),
                   [caller, which = parameters.at("job")](EngineRooms& rooms) -> Result<json> {
                     HZ_ASSIGN_OR_RETURN(const Job* const job, CallersJob(rooms, caller, which));
                     return AdviceOf(rooms, *job);
                   });
}

void ServeReport(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
                 const HttpParameters& parameters) {
  const Result<SavedReport> report = SavedReportIn(exchange->request().body);
  if (!report.ok()) return exchange->Respond(HttpProblem(report.status()));
  const HttpCaller caller = exchange->request().caller;
  AnswerFromEngine(
      services, std::move(exchange),
      [caller, which = parameters.at("job"), report = *report](EngineRooms& rooms) -> Result<json> {
        HZ_ASSIGN_OR_RETURN(Job* const job, CallersJob(rooms, caller, which));
        HZ_RETURN_IF_ERROR(rooms.checkpoint_advisor().OnSaved(*job, report));
        return AdviceOf(rooms, *job);
      });
}

void ServeSaveNow(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
                  const HttpParameters& parameters) {
  // An empty body says the same as one without fields.
  const std::string& body = exchange->request().body;
  const JsonBody none(body.empty() ? "{}" : body, {});
  if (!none.status().ok()) return exchange->Respond(HttpProblem(none.status()));
  const HttpCaller caller = exchange->request().caller;
  AnswerFromEngine(services, std::move(exchange),
                   [caller, which = parameters.at("job")](EngineRooms& rooms) -> Result<json> {
                     HZ_ASSIGN_OR_RETURN(Job* const job, CallersJob(rooms, caller, which));
                     HZ_ASSIGN_OR_RETURN(
                         const SaveMoment moment,
                         rooms.checkpoint_advisor().RequestSave(*job, caller.is_operator()));
                     return MomentDocument(moment, rooms.checkpoint_advisor().AdviceFor(*job));
                   });
}

/// Lists what is in memory, here and at the other hosts of the job, and in the provider's store.
void ServeKept(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
               const HttpParameters& parameters) {
  const HttpCaller caller = exchange->request().caller;
  AnswerLater(
      services, std::move(exchange), 200,
      [caller, which = parameters.at("job")](EngineRooms& rooms, AnswerDone done) {
        const Result<Job*> job = CallersJob(rooms, caller, which);
        if (!job.ok()) return done(job.status());
        const Communicator* const largest = rooms.events().job_communicators().Largest(**job);
        rooms.checkpoints().List(**job, largest, done);
      });
}

}  // namespace

std::vector<HttpRoute> CheckpointRoutes(const ApiServices& services) {
  static constexpr RouteRow kRows[] = {
      {"GET", "/v1/jobs/{job}/checkpoints", HttpAudience::kTenants, ServeKept},
      {"GET", "/v1/jobs/{job}/checkpoints/advice", HttpAudience::kTenants, ServeAdvice},
      {"POST", "/v1/jobs/{job}/checkpoints/reports", HttpAudience::kTenants, ServeReport},
      {"POST", "/v1/jobs/{job}/checkpoints", HttpAudience::kTenants, ServeSaveNow}};
  return MakeRoutes(services, kRows);
}

}  // namespace harmonaize::daemon

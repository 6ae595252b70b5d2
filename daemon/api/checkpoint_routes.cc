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
#include "daemon/checkpoint/saves_document.h"
#include "daemon/identity/job_identity.h"
#include "daemon/job_events/event_rooms.h"
#include "daemon/jobs/job_table.h"
#include "daemon/tenant/tenant.h"
#include "daemon/tenant/tenant_table.h"

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

/// Returns the key of the job that the path names. A job that the daemon has forgotten is found
/// while it has something in memory: by its id and, for its tenant, by its name.
Result<JobTable::Key> KeyOfSaved(EngineRooms& rooms, const HttpCaller& caller,
                                 const std::string& which) {
  const Result<Job*> job = CallersJob(rooms, caller, which);
  if (job.ok()) return JobTable::KeyOf(**job);
  if (job.status().code() != Code::kUnavailable) return job.status();
  const auto is_meant = [&](const JobTable::Key& key) {
    if (key.second.text() == which)
      return caller.is_operator() || key.first == caller.tenant.number;
    return !caller.is_operator() && key.first == caller.tenant.number &&
           key.second == JobOfName(which, caller.tenant.across_hosts);
  };
  for (const auto& [key, parts] : rooms.checkpoints().parts().jobs()) {
    if (is_meant(key)) return key;
  }
  return job.status();
}

/// Lists what is in memory, here and at the other hosts of the job, and in the provider's store.
void ServeKept(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
               const HttpParameters& parameters) {
  const HttpCaller caller = exchange->request().caller;
  AnswerLater(services, std::move(exchange), 200,
              [caller, which = parameters.at("job")](EngineRooms& rooms, AnswerDone done) {
                const Result<JobTable::Key> key = KeyOfSaved(rooms, caller, which);
                if (!key.ok()) return done(key.status());
                const Job* const job = rooms.jobs().FindById(key->second, key->first);
                const Communicator* const largest =
                    job == nullptr ? nullptr : rooms.events().job_communicators().Largest(*job);
                rooms.checkpoints().listings().List(*key, largest, done);
              });
}

/// Returns what this host has of a job's checkpoints. A job that the daemon has forgotten has no
/// name.
json KeptOf(EngineRooms& rooms, bool for_operators, const JobTable::Key& key,
            const KeptParts::ByBuffer& parts) {
  json kept = SavesDocument(&parts, {}, {});
  // The store is not asked.
  for (json& one : kept["checkpoints"]) one.erase("stored");
  const Job* const job = rooms.jobs().FindById(key.second, key.first);
  kept["job"] = key.second.text();
  kept["name"] = job == nullptr ? "" : job->name;
  if (!for_operators) return kept;
  const Tenant* const tenant = rooms.tenants().OfNumber(key.first);
  kept["tenant"] = tenant == nullptr ? "" : tenant->name();
  return kept;
}

/// Lists the caller's jobs that have checkpoints in memory at this host.
void ServeAllKept(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
                  const HttpParameters& /*parameters*/) {
  const HttpCaller caller = exchange->request().caller;
  AnswerFromEngine(services, std::move(exchange), [caller](EngineRooms& rooms) -> Result<json> {
    json jobs = json::array();
    for (const auto& [key, parts] : rooms.checkpoints().parts().jobs()) {
      if (!caller.is_operator() && key.first != caller.tenant.number) continue;
      json kept = KeptOf(rooms, caller.is_operator(), key, parts);
      if (!kept.at("checkpoints").empty()) jobs.push_back(std::move(kept));
    }
    return json{{"jobs", std::move(jobs)}};
  });
}

}  // namespace

std::vector<HttpRoute> CheckpointRoutes(const ApiServices& services) {
  static constexpr RouteRow kRows[] = {
      {"GET", "/v1/checkpoints", HttpAudience::kTenants, ServeAllKept},
      {"GET", "/v1/jobs/{job}/checkpoints", HttpAudience::kTenants, ServeKept},
      {"GET", "/v1/jobs/{job}/checkpoints/advice", HttpAudience::kTenants, ServeAdvice},
      {"POST", "/v1/jobs/{job}/checkpoints/reports", HttpAudience::kTenants, ServeReport},
      {"POST", "/v1/jobs/{job}/checkpoints", HttpAudience::kTenants, ServeSaveNow}};
  return MakeRoutes(services, kRows);
}

}  // namespace harmonaize::daemon

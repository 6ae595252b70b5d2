#include "daemon/api/job_routes.h"

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "daemon/api/job_snapshots.h"
#include "daemon/api/json_body.h"
#include "daemon/http/entity_tags.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

/// Returns the job with this id or name; nullptr if the snapshot has none. Of several with the name
/// it is the one that began last.
const json* FindJob(const json& jobs, const std::string& which) {
  const json* found = nullptr;
  for (const json& job : jobs) {
    if (job.at("id") == which) return &job;
    if (job.at("name") == which) found = &job;
  }
  return found;
}

/// A job without its communicators' ranks and operations, for lists.
json Summary(const json& job) {
  json summary = job;
  json names = json::array();
  uint64_t waiting = 0;
  uint64_t operations = 0;
  uint64_t bytes = 0;
  uint64_t timed = 0;
  double timed_seconds = 0;
  for (const json& communicator : job.at("communicators")) {
    names.push_back({{"id", communicator.at("id")},
                     {"name", communicator.at("name")},
                     {"size", communicator.at("size")},
                     {"state", communicator.at("state")}});
    waiting += communicator.at("waiting").size();
    operations += communicator.at("operations").get<uint64_t>();
    bytes += communicator.at("bytes").get<uint64_t>();
    if (!communicator.contains("timed")) continue;
    timed += communicator.at("timed").at("operations").get<uint64_t>();
    timed_seconds += communicator.at("timed").at("seconds").get<double>();
  }
  summary["communicators"] = std::move(names);
  summary["waiting"] = waiting;
  summary["operations"] = operations;
  summary["stuck"] = job.at("stuck").size();
  summary["bytes"] = bytes;
  summary["timed"] = {{"operations", timed}, {"seconds", timed_seconds}};
  return summary;
}

json Operations(const json& job) {
  json list = json::array();
  for (const json& communicator : job.at("communicators")) {
    for (json operation : communicator.at("waiting")) {
      operation["communicator"] = communicator.at("id");
      list.push_back(std::move(operation));
    }
  }
  return {{"operations", std::move(list)}};
}

json Ranks(const json& job) {
  json list = json::array();
  for (const json& communicator : job.at("communicators")) {
    list.push_back({{"communicator", communicator.at("id")}, {"ranks", communicator.at("ranks")}});
  }
  return {{"communicators", std::move(list)}};
}

json Communicators(const json& job) {
  return {{"communicators", job.at("communicators")}};
}

json Stuck(const json& job) {
  return {{"verdicts", job.at("stuck")}};
}

HttpResponse NoEngine() {
  return HttpProblem(503, "the daemon cannot answer now; ask again in a moment");
}

/// A route about one job, with the view of it that the route shows.
HttpRoute JobRoute(const ApiServices& services, std::string pattern,
                   std::function<json(const json&)> view,
                   JobSnapshots* ApiServices::*snapshots = &ApiServices::jobs) {
  const auto serve = [services, snapshots, view = std::move(view)](
                         std::shared_ptr<HttpExchange> exchange, const HttpParameters& parameters) {
    const HttpCaller caller = exchange->request().caller;
    const auto answer = [services, view, exchange = std::move(exchange),
                         which = parameters.at("job")](const JobSnapshots::Snapshot& jobs) {
      if (jobs == nullptr) return exchange->Respond(NoEngine());
      const json* const job = FindJob(*jobs, which);
      if (job == nullptr) {
        return exchange->Respond(
            HttpProblem(404, "there is no such job here; GET /v1/jobs lists yours"));
      }
      HttpResponse response{.body = DumpJson(view(*job))};
      services.tags->Apply(exchange->request(), &response);
      exchange->Respond(std::move(response));
    };
    (services.*snapshots)->Get(caller, answer);
  };
  return {.method = "GET",
          .pattern = std::move(pattern),
          .audience = HttpAudience::kTenants,
          .serve = serve};
}

HttpRoute JobsRoute(const ApiServices& services) {
  const auto serve = [services](std::shared_ptr<HttpExchange> exchange, const HttpParameters&) {
    const HttpCaller caller = exchange->request().caller;
    services.jobs->Get(
        caller, [services, exchange = std::move(exchange)](const JobSnapshots::Snapshot& jobs) {
          if (jobs == nullptr) return exchange->Respond(NoEngine());
          json list = json::array();
          for (const json& job : *jobs) list.push_back(Summary(job));
          HttpResponse response{.body = DumpJson({{"jobs", std::move(list)}})};
          services.tags->Apply(exchange->request(), &response);
          exchange->Respond(std::move(response));
        });
  };
  return {
      .method = "GET", .pattern = "/v1/jobs", .audience = HttpAudience::kTenants, .serve = serve};
}

/// What keeps operations of all jobs from ending, for operators.
HttpRoute StuckRoute(const ApiServices& services) {
  const auto serve = [services](std::shared_ptr<HttpExchange> exchange, const HttpParameters&) {
    const HttpCaller caller = exchange->request().caller;
    services.jobs->Get(
        caller, [services, exchange = std::move(exchange)](const JobSnapshots::Snapshot& jobs) {
          if (jobs == nullptr) return exchange->Respond(NoEngine());
          json list = json::array();
          for (const json& job : *jobs) {
            for (json verdict : job.at("stuck")) {
              verdict["tenant"] = job.at("tenant");
              list.push_back(std::move(verdict));
            }
          }
          HttpResponse response{.body = DumpJson({{"verdicts", std::move(list)}})};
          services.tags->Apply(exchange->request(), &response);
          exchange->Respond(std::move(response));
        });
  };
  return {.method = "GET",
          .pattern = "/v1/stuck",
          .audience = HttpAudience::kOperators,
          .serve = serve};
}

}  // namespace

std::vector<HttpRoute> JobRoutes(const ApiServices& services) {
  return {JobsRoute(services),
          JobRoute(services, "/v1/jobs/{job}", [](const json& job) { return job; }),
          JobRoute(services, "/v1/jobs/{job}/communicators", Communicators),
          JobRoute(services, "/v1/jobs/{job}/operations", Operations),
          JobRoute(services, "/v1/jobs/{job}/ranks", Ranks),
          JobRoute(services, "/v1/jobs/{job}/stuck", Stuck),
          JobRoute(
              services, "/v1/jobs/{job}/flight", [](const json& job) { return job; },
              &ApiServices::flights),
          StuckRoute(services)};
}

}  // namespace harmonaize::daemon

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

/// The job that a word stands for.
struct FoundJob {
  const json* job = nullptr;  ///< nullptr: the snapshot has none.
  /// It is a name, and jobs of several tenants have it.
  bool of_several_tenants = false;
};

/// Finds the job with this id or name. Of several of one tenant it is the one that began last.
FoundJob FindJob(const json& jobs, const std::string& which) {
  FoundJob found;
  for (const json& job : jobs) {
    if (job.at("id") == which) return {&job};
    if (job.at("name") != which) continue;
    // Operators' snapshots alone say whose a job is.
    const bool same =
        found.job == nullptr || found.job->value("tenant", "") == job.value("tenant", "");
    found = {&job, found.of_several_tenants || !same};
  }
  return found;
}

/// A job without its communicators' ranks and operations, for lists.
json Summary(const json& job) {
  json summary = job;
  json names = json::array();
  uint64_t waiting = 0;
  const json& ended = job.at("ended_communicators");
  uint64_t operations = ended.at("operations").get<uint64_t>();
  uint64_t bytes = ended.at("bytes").get<uint64_t>();
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

/// Makes an answer from a snapshot. `job` is the one that the path names; nullptr where it names
/// none.
using View = std::function<json(const json& jobs, const json* job)>;

/// A route whose answer is a view of a snapshot.
struct SnapshotRoute {
  std::string pattern;
  View view;
  HttpAudience audience = HttpAudience::kTenants;
  JobSnapshots* ApiServices::*snapshots = &ApiServices::jobs;
};

/// Returns the view's answer; 404 for a job that is not in the snapshot.
HttpResponse AnswerOf(const SnapshotRoute& route, const json& jobs,
                      const HttpParameters& parameters) {
  const auto which = parameters.find("job");
  const bool names_one = which != parameters.end();
  const FoundJob found = names_one ? FindJob(jobs, which->second) : FoundJob();
  if (found.of_several_tenants) {
    return HttpProblem(409, "jobs of several tenants have this name; GET /v1/jobs lists their ids");
  }
  if (found.job == nullptr && names_one) {
    return HttpProblem(404, "there is no such job here; GET /v1/jobs lists yours");
  }
  return {.body = DumpJson(route.view(jobs, found.job))};
}

HttpRoute RouteOf(const ApiServices& services, SnapshotRoute route) {
  const auto serve = [services, route](std::shared_ptr<HttpExchange> exchange,
                                       const HttpParameters& parameters) {
    const HttpCaller caller = exchange->request().caller;
    (services.*route.snapshots)
        ->Get(caller, [services, route, exchange = std::move(exchange),
                       parameters](const JobSnapshots::Snapshot& jobs) {
          if (jobs == nullptr) {
            return exchange->Respond(
                HttpProblem(503, "the daemon cannot answer now; ask again in a moment"));
          }
          HttpResponse response = AnswerOf(route, *jobs, parameters);
          services.tags->Apply(exchange->request(), &response);
          exchange->Respond(std::move(response));
        });
  };
  return {.method = "GET", .pattern = route.pattern, .audience = route.audience, .serve = serve};
}

/// A view of one job.
View Of(json (*view)(const json& job)) {
  return [view](const json&, const json* job) { return view(*job); };
}

json Whole(const json& job) {
  return job;
}

json AllJobs(const json& jobs, const json*) {
  json list = json::array();
  for (const json& job : jobs) list.push_back(Summary(job));
  return {{"jobs", std::move(list)}};
}

/// What keeps operations of all jobs from ending.
json AllStuck(const json& jobs, const json*) {
  json list = json::array();
  for (const json& job : jobs) {
    for (json verdict : job.at("stuck")) {
      verdict["tenant"] = job.at("tenant");
      list.push_back(std::move(verdict));
    }
  }
  return {{"verdicts", std::move(list)}};
}

}  // namespace

std::vector<HttpRoute> JobRoutes(const ApiServices& services) {
  std::vector<HttpRoute> routes;
  for (const SnapshotRoute& route : {
           SnapshotRoute{"/v1/jobs", AllJobs},
           SnapshotRoute{"/v1/jobs/{job}", Of(Whole)},
           SnapshotRoute{"/v1/jobs/{job}/communicators", Of(Communicators)},
           SnapshotRoute{"/v1/jobs/{job}/operations", Of(Operations)},
           SnapshotRoute{"/v1/jobs/{job}/ranks", Of(Ranks)},
           SnapshotRoute{"/v1/jobs/{job}/stuck", Of(Stuck)},
           SnapshotRoute{"/v1/jobs/{job}/flight", Of(Whole), HttpAudience::kTenants,
                         &ApiServices::flights},
           SnapshotRoute{"/v1/stuck", AllStuck, HttpAudience::kOperators},
       }) {
    routes.push_back(RouteOf(services, route));
  }
  return routes;
}

}  // namespace harmonaize::daemon

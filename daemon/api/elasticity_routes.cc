#include "daemon/api/elasticity_routes.h"

#include <cmath>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "daemon/api/engine_answer.h"
#include "daemon/api/json_body.h"
#include "daemon/api/notice_documents.h"
#include "daemon/api/route_row.h"
#include "daemon/sizing/sizing.h"
#include "src/base/clean_text.h"
#include "src/base/json_text.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

/// Longest name of a job that waits, in bytes: as of HARMONAIZE_JOB.
constexpr size_t kMostNameBytes = 63;
/// Most ranks of a job that waits: of one communicator.
constexpr double kMostWaitingRanks = kMostSizedRanks;
/// Highest priority, as of [collectives] priority.
constexpr double kMostPriority = 3;
/// Time, in seconds, for which a list of waiting jobs counts that does not say it: a scheduler that
/// has ended is forgotten soon.
constexpr double kCountsForSeconds = 60;
/// Longest such time, in seconds.
constexpr double kMostCountsForSeconds = 3600;

std::string_view NameOf(ElasticGoal goal) {
  switch (goal) {
    case ElasticGoal::kCheapest: return "cheapest";
    case ElasticGoal::kDeadline: return "deadline";
    case ElasticGoal::kFastest: break;
  }
  return "fastest";
}

json HostsOf(const SizingLook& look) {
  json list = json::array();
  for (size_t i = 0; i < look.hosts.size(); ++i) {
    const ElasticHost& host = look.world.hosts[i];
    list.push_back({{"host", look.hosts[i].name},
                    {"places", look.hosts[i].places},
                    {"free", host.free_places},
                    {"coming", host.coming_places},
                    {"link_load", host.link_load}});
  }
  return list;
}

/// Returns why a job is not asked now; null: it may be.
json LeftAloneBecause(const SizedJob& job, const ElasticJob& elastic, double now_seconds) {
  if (!job.is_whole) return "not all of its ranks are at hosts that tell of it";
  if (elastic.is_asked) return "an offer is under way";
  if (elastic.quiet_until_seconds > now_seconds) return "it does not want to be asked yet";
  return nullptr;
}

json DescribeJob(const SizingLook& look, size_t i) {
  const SizedJob& job = look.jobs[i];
  const ElasticJob& elastic = look.world.jobs[i];
  const int32_t ranks = elastic.size();
  json hosts = json::array();
  for (size_t host = 0; host < look.hosts.size(); ++host) {
    if (elastic.ranks[host] == 0 && elastic.room[host] == 0) continue;
    hosts.push_back({{"host", look.hosts[host].name},
                     {"ranks", elastic.ranks[host]},
                     {"room", elastic.room[host]}});
  }
  const json step = job.knows_speed ? json(elastic.speed.StepSeconds(ranks)) : json(nullptr);
  return {{"job", job.id.text()},
          {"name", job.label},
          {"tenant", job.tenant},
          {"ranks", ranks},
          {"hosts", std::move(hosts)},
          {"least_ranks", elastic.bounds.least},
          {"most_ranks", job.most_ranks},
          {"step", elastic.bounds.step},
          {"priority", elastic.priority},
          {"goal", NameOf(elastic.goal)},
          {"deadline", TimeOrNull(elastic.deadline_seconds)},
          {"step_seconds", step},
          {"change_seconds", elastic.change_seconds},
          {"left_alone_because", LeftAloneBecause(job, elastic, look.world.now_seconds)}};
}

json SharesOf(const SizingLook& look) {
  std::map<uint32_t, std::pair<std::string, int32_t>> held;
  for (size_t i = 0; i < look.jobs.size(); ++i) {
    auto& [name, sum] = held[look.jobs[i].user];
    name = look.jobs[i].tenant;
    sum += look.world.jobs[i].size();
  }
  json list = json::array();
  for (const auto& [user, of_tenant] : held) {
    list.push_back({{"tenant", of_tenant.first},
                    {"ranks", of_tenant.second},
                    {"share", look.world.shares.at(user)}});
  }
  return list;
}

json DescribeDecision(const SizeDecision& decision) {
  json document = {{"time", TimeOrNull(decision.at_seconds)},
                   {"name", decision.job},
                   {"tenant", decision.tenant},
                   {"host", decision.host},
                   {"kind", decision.grows ? "grow" : "reclaim"},
                   {"ranks", decision.ranks},
                   {"why", decision.why},
                   {"expected", nullptr}};
  if (decision.expected_step_seconds > 0) {
    document["expected"] = {{"step_seconds", decision.expected_step_seconds},
                            {"confidence", decision.confidence}};
  }
  return document;
}

json WaitingOf(const std::vector<NewcomerJob>& waiting) {
  json list = json::array();
  for (const NewcomerJob& job : waiting) {
    list.push_back({{"name", job.name}, {"ranks", job.ranks}, {"priority", job.priority}});
  }
  return list;
}

json Describe(const SizingReport& report) {
  json jobs = json::array();
  for (size_t i = 0; i < report.look->jobs.size(); ++i) {
    jobs.push_back(DescribeJob(*report.look, i));
  }
  json decisions = json::array();
  for (const SizeDecision& decision : report.decisions) {
    decisions.push_back(DescribeDecision(decision));
  }
  return {{"enabled", report.enabled},
          {"decides", report.decides},
          {"controller", report.controller},
          {"hosts", HostsOf(*report.look)},
          {"jobs", std::move(jobs)},
          {"tenants", SharesOf(*report.look)},
          {"waiting", WaitingOf(report.waiting)},
          {"decisions", std::move(decisions)}};
}

void ServeElasticity(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
                     const HttpParameters& /*parameters*/) {
  AnswerWithMaker(services, std::move(exchange), [](EngineRooms& rooms) -> Result<DocumentMaker> {
    return DocumentMaker([report = rooms.sizing().Report()] { return Describe(report); });
  });
}

/// Reads one job of a list.
Result<NewcomerJob> NewcomerIn(const json& object) {
  static constexpr std::string_view kFields[] = {"name", "ranks", "priority"};
  JsonBody body(JsonText(object), kFields);
  body.Need("ranks", "the fewest ranks with which the job begins");
  const double ranks = body.Number("ranks", 1, kMostWaitingRanks).value_or(1);
  const double priority = body.Number("priority", 0, kMostPriority).value_or(0);
  if (ranks != std::floor(ranks)) body.Fail(InvalidArgument("'ranks' is a whole number"));
  if (priority != std::floor(priority)) body.Fail(InvalidArgument("'priority' is a whole number"));
  NewcomerJob job{.name = CleanText(body.Text("name", kMostNameBytes).value_or(""), kMostNameBytes),
                  .ranks = static_cast<int32_t>(ranks),
                  .priority = static_cast<int>(priority)};
  HZ_RETURN_IF_ERROR(body.status());
  return job;
}

struct WaitingOrder {
  std::vector<NewcomerJob> jobs;
  double for_seconds = 0;
};

Result<WaitingOrder> WaitingIn(const std::string& text) {
  static constexpr std::string_view kFields[] = {"jobs", "for_seconds"};
  JsonBody body(text, kFields);
  body.Need("jobs",
            "a list of {\"name\", \"ranks\", \"priority\"} in the order in which they begin");
  WaitingOrder order{
      .jobs = {},

      .for_seconds =
          body.Number("for_seconds", 1, kMostCountsForSeconds).value_or(kCountsForSeconds)};
  const json list = body.Any("jobs").value_or(json::array());
  HZ_RETURN_IF_ERROR(body.status());
  if (!list.is_array() || list.size() > Sizing::kMostWaiting) {
    return InvalidArgument("'jobs' is a list of at most {} jobs", Sizing::kMostWaiting);
  }
  for (const json& one : list) {
    HZ_ASSIGN_OR_RETURN(NewcomerJob job, NewcomerIn(one));
    order.jobs.push_back(std::move(job));
  }
  return order;
}

void ServeWaiting(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
                  const HttpParameters& /*parameters*/) {
  Result<WaitingOrder> order = WaitingIn(exchange->request().body);
  if (!order.ok()) return exchange->Respond(HttpProblem(order.status()));
  AnswerFromEngine(services, std::move(exchange),
                   [order = *order](EngineRooms& rooms) -> Result<json> {
                     HZ_RETURN_IF_ERROR(rooms.sizing().SetWaiting(order.jobs, order.for_seconds));
                     return json{{"waiting", WaitingOf(order.jobs)}};
                   });
}

}  // namespace

std::vector<HttpRoute> ElasticityRoutes(const ApiServices& services) {
  constexpr HttpAudience kAnOperator = HttpAudience::kOperators;
  static constexpr RouteRow kRows[] = {
      {"GET", "/v1/elasticity", kAnOperator, ServeElasticity},
      {"PUT", "/v1/elasticity/waiting", kAnOperator, ServeWaiting}};
  return MakeRoutes(services, kRows);
}

}  // namespace harmonaize::daemon

#include "daemon/api/operator_routes.h"

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "daemon/api/engine_answer.h"
#include "daemon/api/json_body.h"
#include "daemon/cluster/cluster.h"
#include "daemon/job_events/announcements.h"
#include "daemon/jobs/job_table.h"
#include "daemon/reports/status_cluster.h"
#include "daemon/reports/status_report.h"
#include "src/base/clean_text.h"
#include "src/base/clock.h"
#include "src/base/random.h"
#include "src/base/wall_clock.h"
#include "src/events/event_data.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;
using Kind = CloudNotice::Kind;
using State = CloudNotice::State;

/// Names of the values, in their order.
constexpr std::string_view kKinds[] = {"maintenance", "reclaim", "risk_of_reclaim", "unhealthy"};
constexpr std::string_view kStates[] = {"scheduled", "started", "completed", "withdrawn"};

template <typename Enum, size_t kCount>
Result<Enum> ValueNamed(const std::string& name, const std::string_view (&names)[kCount],
                        const char* field) {
  for (size_t i = 0; i < kCount; ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  return InvalidArgument("'{}' is one of {}, not '{}'", field, fmt::join(names, ", "), name);
}

json TimeOrNull(double unix_seconds) {
  if (unix_seconds == 0) return nullptr;
  return TimeText(static_cast<int64_t>(unix_seconds * 1e9));
}

// ---------------------------------------------------------------------------------------------
// Reading

Reader AnOperator() {
  return {.tenant = 0, .is_operator = true};
}

/// Returns this host's name among the provider's, or what stands for it where it has none.
std::string HostName(const ReportSources& sources) {
  const bool named = sources.cluster != nullptr && !sources.cluster->host_name().empty();
  return named ? sources.cluster->host_name() : "this";
}

json Describe(const CloudNotice& notice) {
  json description = {{"source", notice.source},
                      {"id", notice.id},
                      {"kind", kKinds[static_cast<size_t>(notice.kind)]},
                      {"state", kStates[static_cast<size_t>(notice.state)]},
                      {"survives", notice.survives},
                      {"text", notice.text},
                      {"not_before", nullptr},
                      {"duration_seconds", nullptr}};
  if (notice.not_before_seconds.has_value()) {
    description["not_before"] = TimeText(*notice.not_before_seconds * 1'000'000'000);
  }
  if (notice.duration_seconds.has_value()) {
    description["duration_seconds"] = *notice.duration_seconds;
  }
  return description;
}

Result<json> Hosts(EngineRooms& rooms) {
  json host = DaemonStatus(rooms.report_sources(), AnOperator());
  host["name"] = HostName(rooms.report_sources());
  host["announced"] = json::array();
  if (rooms.announcements() != nullptr) {
    for (const CloudNotice& notice : rooms.announcements()->Active()) {
      host["announced"].push_back(Describe(notice));
    }
  }
  return json{{"hosts", json::array({std::move(host)})}};
}

Result<json> Tenants(EngineRooms& rooms) {
  return json{{"tenants", TenantsStatus(rooms.report_sources(), AnOperator())}};
}

Result<json> Links(EngineRooms& rooms) {
  const ReportSources sources = rooms.report_sources();
  json links = json::object();
  if (sources.cluster != nullptr) links = ClusterStatus(sources, MonotonicNanoseconds());
  for (const char* const list : {"links", "fabric_links", "nics"}) {
    if (!links.contains(list)) links[list] = json::array();
  }
  return links;
}

Result<json> Plans(EngineRooms& rooms) {
  const json tenants = TenantsStatus(rooms.report_sources(), AnOperator());
  json plans = json::array();
  for (const json& tenant : tenants) {
    for (const json& communicator : tenant.at("communicators")) {
      if (!communicator.contains("plans")) continue;
      plans.push_back({{"communicator", communicator.at("id")},
                       {"name", communicator.at("name")},
                       {"job", communicator.at("job")},
                       {"tenant", tenant.at("name")},
                       {"home", communicator.at("home")},
                       {"congestion", communicator.value("congestion", "none")},
                       {"plans", communicator.at("plans")}});
    }
  }
  return json{{"communicators", std::move(plans)}};
}

Result<json> Promises(EngineRooms& rooms) {
  json list = json::array();
  if (rooms.announcements() != nullptr) {
    for (const Announcements::Promise& promise : rooms.announcements()->promises()) {
      const bool said = promise.promised_from_seconds != 0;
      const bool began = promise.began_seconds != 0;
      json one = {{"source", promise.source},
                  {"id", promise.id},
                  {"kind", kKinds[static_cast<size_t>(promise.kind)]},
                  {"announced", TimeOrNull(promise.announced_seconds)},
                  {"promised_from", TimeOrNull(promise.promised_from_seconds)},
                  {"began", TimeOrNull(promise.began_seconds)},
                  {"withdrawn", promise.withdrawn},
                  {"kept", nullptr}};
      if (said && began) {
        one["promised_notice_seconds"] =
            std::max(0.0, promise.promised_from_seconds - promise.announced_seconds);
        one["notice_seconds"] = promise.began_seconds - promise.announced_seconds;
        // Clocks of two machines may differ by a second.
        one["kept"] = promise.began_seconds + 1 >= promise.promised_from_seconds;
      }
      list.push_back(std::move(one));
    }
  }
  return json{{"promises", std::move(list)}};
}

// ---------------------------------------------------------------------------------------------
// Announcing

Result<CloudNotice> NoticeIn(const std::string& text) {
  static constexpr std::string_view kFields[] = {
      "id", "kind", "state", "not_before", "duration_seconds", "survives", "text"};
  JsonBody body(text, kFields);
  CloudNotice notice{.source = "operator",
                     .id = body.Text("id", kMostNoticeIdBytes).value_or(""),
                     .survives = body.YesNo("survives").value_or(false),
                     .text = body.Text("text", kMostNoticeTextBytes).value_or("")};
  const std::string kind = body.Text("kind", 64).value_or("maintenance");
  const std::string state = body.Text("state", 64).value_or("scheduled");
  const std::optional<int64_t> not_before = body.Time("not_before");
  const std::optional<double> duration = body.Number("duration_seconds", 0, 1e9);
  HZ_RETURN_IF_ERROR(body.status());
  HZ_ASSIGN_OR_RETURN(notice.kind, ValueNamed<Kind>(kind, kKinds, "kind"));
  HZ_ASSIGN_OR_RETURN(notice.state, ValueNamed<State>(state, kStates, "state"));
  if (not_before.has_value()) notice.not_before_seconds = *not_before / 1'000'000'000;
  if (duration.has_value()) notice.duration_seconds = std::llround(*duration);
  if (notice.id.empty()) {
    if (notice.state != State::kScheduled) {
      return InvalidArgument("'id' is missing: it is what the answer to the announcement said");
    }
    notice.id = fmt::format("operator-{:08x}", static_cast<uint32_t>(RandomNumber()));
  }
  return notice;
}

Result<json> Announce(EngineRooms& rooms, const std::string& host, const CloudNotice& notice) {
  const std::string own = HostName(rooms.report_sources());
  if (host != own && host != "this") {
    return Unavailable("this daemon speaks for the host '{}' alone: ask that of '{}'", own,
                       CleanText(host, 64));
  }
  if (rooms.announcements() == nullptr) return Unavailable("this daemon tells no events");
  HZ_RETURN_IF_ERROR(rooms.announcements()->Take(notice));
  return Describe(notice);
}

/// An event that an operator tells a job, as it is in the request's body.
struct Injected {
  std::string job;
  EventType type = EventType::kRankLate;
  std::string subject;
  std::string data;  ///< Checked.

  JobEvents::News news() const { return {.type = type, .subject = subject, .data = data}; }
};

Result<Injected> InjectedIn(const std::string& text) {
  static constexpr std::string_view kFields[] = {"job", "type", "subject", "data"};
  JsonBody body(text, kFields);
  body.Need("job", "the id of the job that is to hear of it, or \"\" for operators alone");
  body.Need("type", "GET /v1/event-types lists the types");
  body.Need("data", "an object with the fields of the type's schema");
  const std::string job = body.Text("job", 64).value_or("");
  const std::string name = body.Text("type", 128).value_or("");
  const std::string subject = body.Text("subject", 128).value_or("");
  const std::optional<json> data = body.Any("data");
  HZ_RETURN_IF_ERROR(body.status());
  const std::optional<EventType> type = EventTypeNamed(name);
  if (!type.has_value()) {
    return InvalidArgument("there is no type '{}'; GET /v1/event-types lists them", name);
  }
  HZ_ASSIGN_OR_RETURN(std::string checked, CheckedEventData(*type, DumpJson(*data)));
  return Injected{job, *type, subject, std::move(checked)};
}

Result<json> Inject(EngineRooms& rooms, const Injected& injected) {
  if (rooms.job_events() == nullptr) return Unavailable("this daemon tells no events");
  if (injected.job.empty()) {
    rooms.job_events()->TellOperators(injected.news());
    return json{{"told", true}};
  }
  for (const auto& [key, job] : rooms.jobs().all()) {
    if (job->id.text() != injected.job) continue;
    rooms.job_events()->Tell(*job, injected.news());
    return json{{"told", true}};
  }
  return Unavailable("there is no job '{}' on this host; GET /v1/jobs lists them",
                     CleanText(injected.job, 64));
}

HttpRoute Read(const ApiServices& services, std::string pattern,
               Result<json> (*read)(EngineRooms&)) {
  return {.method = "GET",
          .pattern = std::move(pattern),
          .audience = HttpAudience::kOperators,
          .serve = [services, read](std::shared_ptr<HttpExchange> exchange, const HttpParameters&) {
            AnswerFromEngine(services, std::move(exchange), read);
          }};
}

}  // namespace

std::vector<HttpRoute> OperatorRoutes(const ApiServices& services) {
  const auto announce = [services](std::shared_ptr<HttpExchange> exchange,
                                   const HttpParameters& parameters) {
    const Result<CloudNotice> notice = NoticeIn(exchange->request().body);
    if (!notice.ok()) return exchange->Respond(HttpProblem(notice.status()));
    AnswerFromEngine(services, std::move(exchange),
                     [host = parameters.at("host"), notice = *notice](EngineRooms& rooms) {
                       return Announce(rooms, host, notice);
                     });
  };
  const auto inject = [services](std::shared_ptr<HttpExchange> exchange, const HttpParameters&) {
    Result<Injected> injected = InjectedIn(exchange->request().body);
    if (!injected.ok()) return exchange->Respond(HttpProblem(injected.status()));
    AnswerFromEngine(
        services, std::move(exchange),
        [injected = std::move(*injected)](EngineRooms& rooms) { return Inject(rooms, injected); });
  };
  return {Read(services, "/v1/hosts", Hosts),
          Read(services, "/v1/tenants", Tenants),
          Read(services, "/v1/links", Links),
          Read(services, "/v1/plans", Plans),
          Read(services, "/v1/promises", Promises),
          {.method = "POST",
           .pattern = "/v1/hosts/{host}/maintenance",
           .audience = HttpAudience::kOperators,
           .serve = announce},
          {.method = "POST",
           .pattern = "/v1/events",
           .audience = HttpAudience::kOperators,
           .serve = inject}};
}

}  // namespace harmonaize::daemon

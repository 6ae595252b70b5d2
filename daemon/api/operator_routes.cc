#include "daemon/api/operator_routes.h"

#include <fmt/format.h>
#include <limits.h>
#include <unistd.h>

#include <cmath>
#include <span>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "daemon/api/engine_answer.h"
#include "daemon/api/json_body.h"
#include "daemon/api/named_job.h"
#include "daemon/api/notice_documents.h"
#include "daemon/cluster/cluster.h"
#include "daemon/job_events/event_rooms.h"
#include "daemon/jobs/job_table.h"
#include "daemon/reports/status_cluster.h"
#include "daemon/reports/status_report.h"
#include "src/base/clean_text.h"
#include "src/base/clock.h"
#include "src/base/wall_clock.h"
#include "src/events/event_data.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;
using Kind = CloudNotice::Kind;
using State = CloudNotice::State;

template <typename Enum>
Result<Enum> ValueNamed(const std::string& name, std::span<const std::string_view> names,
                        const char* field) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  return InvalidArgument("'{}' is one of {}, not '{}'", field, fmt::join(names, ", "), name);
}

// ---------------------------------------------------------------------------------------------
// Reading

Reader AnOperator() {
  return {.tenant = 0, .is_operator = true};
}

/// Returns the name that the machine has for itself; "this" where it has none.
std::string MachineName() {
  char name[HOST_NAME_MAX + 1] = {};
  if (gethostname(name, sizeof name - 1) != 0) return "this";
  const std::string clean = CleanText(name, HOST_NAME_MAX);
  return clean.empty() ? "this" : clean;
}

/// Returns this host's name among the provider's, or the machine's own where it has none there.
std::string HostName(const ReportSources& sources) {
  const bool named = sources.cluster != nullptr && !sources.cluster->host_name().empty();
  return named ? sources.cluster->host_name() : MachineName();
}

Result<json> Hosts(EngineRooms& rooms) {
  json host = DaemonStatus(rooms.report_sources(), AnOperator());
  host["name"] = HostName(rooms.report_sources());
  host["announced"] = json::array();
  for (const Announcements::Active& active : rooms.events().announcements().All()) {
    host["announced"].push_back(Describe(active.notice));
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

// ---------------------------------------------------------------------------------------------
// Announcing

Status CheckIds(const NoticeUpdate& update) {
  if (update.id.empty() && update.state.value_or(State::kScheduled) != State::kScheduled) {
    return InvalidArgument("'id' is missing: it is what the answer to the announcement said");
  }
  if (update.new_id.empty()) return Status::Ok();
  if (!update.id.empty()) {
    return InvalidArgument(
        "'id' is of what is announced already, 'new_id' of what is not: leave one out");
  }
  if (IsChosenId(update.new_id)) return Status::Ok();
  return InvalidArgument(
      "'new_id' has lower case letters, digits and '-' alone, and does not begin with '{}'",
      kDrainPrefix);
}

Result<NoticeUpdate> UpdateIn(const std::string& text) {
  static constexpr std::string_view kFields[] = {"id",       "new_id",     "kind",
                                                 "state",    "not_before", "duration_seconds",
                                                 "survives", "text",       "early"};
  JsonBody body(text, kFields);
  NoticeUpdate update;
  update.id = body.Text("id", kMostNoticeIdBytes).value_or("");
  update.new_id = body.Text("new_id", kMostNoticeIdBytes).value_or("");
  update.early = body.YesNo("early").value_or(false);
  update.time_is_unknown = body.IsNull("not_before");
  update.survives = body.YesNo("survives");
  update.text = body.Text("text", kMostNoticeTextBytes);
  const std::optional<std::string> kind = body.Text("kind", 64);
  const std::optional<std::string> state = body.Text("state", 64);
  const std::optional<int64_t> not_before = body.Time("not_before");
  const std::optional<double> duration = body.Number("duration_seconds", 0, 1e9);
  HZ_RETURN_IF_ERROR(body.status());
  if (kind.has_value()) {
    // The last kind is for drains alone.
    HZ_ASSIGN_OR_RETURN(update.kind,
                        ValueNamed<Kind>(*kind, std::span(kNoticeKinds).first(4), "kind"));
  }
  if (state.has_value()) {
    HZ_ASSIGN_OR_RETURN(update.state, ValueNamed<State>(*state, kNoticeStates, "state"));
  }
  if (not_before.has_value()) update.not_before_seconds = *not_before / 1'000'000'000;
  if (duration.has_value()) update.duration_seconds = std::llround(*duration);
  HZ_RETURN_IF_ERROR(CheckIds(update));
  return update;
}

Status CheckHost(EngineRooms& rooms, const std::string& host) {
  const std::string own = HostName(rooms.report_sources());
  if (host != own && host != "this" && host != MachineName()) {
    return Unavailable("this daemon speaks for the host '{}' alone: ask that of '{}'", own,
                       CleanText(host, 64));
  }
  return Status::Ok();
}

Result<json> Announce(EngineRooms& rooms, const std::string& host, const NoticeUpdate& update) {
  HZ_RETURN_IF_ERROR(CheckHost(rooms, host));
  HZ_ASSIGN_OR_RETURN(const CloudNotice notice, rooms.events().announcements().Update(update));
  return Describe(notice);
}

Result<json> Announced(EngineRooms& rooms, const std::string& host) {
  HZ_RETURN_IF_ERROR(CheckHost(rooms, host));
  json list = json::array();
  for (const Announcements::Active& active : rooms.events().announcements().All()) {
    list.push_back(DescribeWithAnswers(rooms, active));
  }
  return json{{"announced", std::move(list)}};
}

// ---------------------------------------------------------------------------------------------
// Draining

/// Longest time, in seconds, that a drain may be given: a year.
constexpr double kMostDrainSeconds = 366 * 86400.0;

Result<Drain::Change> DrainChangeIn(const std::string& text) {
  static constexpr std::string_view kFields[] = {"deadline", "within_seconds", "reason", "restart"};
  JsonBody body(text.empty() ? "{}" : text, kFields);
  Drain::Change change;
  change.reason = body.Text("reason", kMostReasonBytes);
  change.restart = body.YesNo("restart");
  change.no_deadline = body.IsNull("deadline") || body.IsNull("within_seconds");
  const std::optional<int64_t> deadline = body.Time("deadline");
  const std::optional<double> within = body.Number("within_seconds", 0, kMostDrainSeconds);
  HZ_RETURN_IF_ERROR(body.status());
  if ((deadline.has_value() || body.IsNull("deadline")) &&
      (within.has_value() || body.IsNull("within_seconds"))) {
    return InvalidArgument("'deadline' and 'within_seconds' say the same: leave one out");
  }
  if (deadline.has_value()) change.deadline_seconds = *deadline / 1'000'000'000;
  if (within.has_value()) change.deadline_seconds = std::llround(UnixSeconds() + *within);
  return change;
}

Result<json> ShowDrain(EngineRooms& rooms, const std::string& host) {
  HZ_RETURN_IF_ERROR(CheckHost(rooms, host));
  return DrainDocument(rooms);
}

Result<json> BeginDrain(EngineRooms& rooms, const std::string& host, const Drain::Change& change) {
  HZ_RETURN_IF_ERROR(CheckHost(rooms, host));
  HZ_RETURN_IF_ERROR(rooms.events().drain().Begin(change));
  return DrainDocument(rooms);
}

Result<json> CancelDrain(EngineRooms& rooms, const std::string& host) {
  HZ_RETURN_IF_ERROR(CheckHost(rooms, host));
  HZ_RETURN_IF_ERROR(rooms.events().drain().Cancel());
  return DrainDocument(rooms);
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
  body.Need("job",
            "the id or the name of the job that is to hear of it, or \"\" for operators alone");
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
  if (*type == EventType::kNoticeAnswered) {
    return InvalidArgument("tenants alone answer: POST /v1/events/ID/acknowledge");
  }
  HZ_ASSIGN_OR_RETURN(std::string checked, CheckedEventData(*type, DumpJson(*data)));
  return Injected{job, *type, subject, std::move(checked)};
}

Result<json> Inject(EngineRooms& rooms, const Injected& injected) {
  if (injected.job.empty()) {
    rooms.events().job_events().TellOperators(injected.news());
    return json{{"told", true}};
  }
  HZ_ASSIGN_OR_RETURN(Job* const job, NamedJob(rooms, std::nullopt, injected.job));
  rooms.events().job_events().Tell(*job, injected.news());
  return json{{"told", true}};
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

HttpRoute OfHost(const ApiServices& services, std::string method, std::string pattern,
                 Result<json> (*answer)(EngineRooms&, const std::string&)) {
  return {.method = std::move(method),
          .pattern = std::move(pattern),
          .audience = HttpAudience::kOperators,
          .serve = [services, answer](std::shared_ptr<HttpExchange> exchange,
                                      const HttpParameters& parameters) {
            AnswerOnceKept(services, std::move(exchange),
                           [host = parameters.at("host"), answer](EngineRooms& rooms) {
                             return answer(rooms, host);
                           });
          }};
}

}  // namespace

std::vector<HttpRoute> OperatorRoutes(const ApiServices& services) {
  const auto announce = [services](std::shared_ptr<HttpExchange> exchange,
                                   const HttpParameters& parameters) {
    const Result<NoticeUpdate> update = UpdateIn(exchange->request().body);
    if (!update.ok()) return exchange->Respond(HttpProblem(update.status()));
    AnswerOnceKept(services, std::move(exchange),
                   [host = parameters.at("host"), update = *update](EngineRooms& rooms) {
                     return Announce(rooms, host, update);
                   });
  };
  const auto drain = [services](std::shared_ptr<HttpExchange> exchange,
                                const HttpParameters& parameters) {
    const Result<Drain::Change> change = DrainChangeIn(exchange->request().body);
    if (!change.ok()) return exchange->Respond(HttpProblem(change.status()));
    AnswerOnceKept(services, std::move(exchange),
                   [host = parameters.at("host"), change = *change](EngineRooms& rooms) {
                     return BeginDrain(rooms, host, change);
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
          {.method = "POST",
           .pattern = "/v1/hosts/{host}/maintenance",
           .audience = HttpAudience::kOperators,
           .serve = announce},
          OfHost(services, "GET", "/v1/hosts/{host}/maintenance", Announced),
          {.method = "POST",
           .pattern = "/v1/hosts/{host}/drain",
           .audience = HttpAudience::kOperators,
           .serve = drain},
          OfHost(services, "GET", "/v1/hosts/{host}/drain", ShowDrain),
          OfHost(services, "DELETE", "/v1/hosts/{host}/drain", CancelDrain),
          {.method = "POST",
           .pattern = "/v1/events",
           .audience = HttpAudience::kOperators,
           .serve = inject}};
}

}  // namespace harmonaize::daemon

#include "daemon/api/event_routes.h"

#include <fmt/format.h>

#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "daemon/api/event_stream.h"
#include "daemon/events/event_bus.h"
#include "daemon/identity/job_identity.h"
#include "src/base/names.h"
#include "src/events/event_filter.h"
#include "src/ipc/messages.h"

namespace harmonaize::daemon {
namespace {

/// Events of a page, and how many a reader may ask for at most.
constexpr size_t kEventsOfPage = 100;
constexpr size_t kMostEventsOfPage = 1000;
/// Longest name or beginning of an id of a job, in bytes: names are shorter than what a process may
/// say in its hello.
constexpr size_t kMostJobWordsBytes = sizeof(HelloRequest::job_name);

std::optional<std::string> Find(const std::map<std::string, std::string>& values,
                                const std::string& name) {
  const auto found = values.find(name);
  if (found == values.end() || found->second.empty()) return std::nullopt;
  return found->second;
}

/// Refuses parameters that the route does not have: a misspelt filter would let everything through.
Status CheckParameters(const HttpRequest& request) {
  static constexpr std::string_view kNames[] = {"types", "job",   "severity", "after",
                                                "from",  "limit", "follow"};
  for (const auto& [name, value] : request.query) {
    if (std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames)) continue;
    return InvalidArgument("there is no parameter '{}'{}", name, DidYouMean(name, kNames));
  }
  return Status::Ok();
}

/// Notes whose events a reader wants: those of the job with this id, or else of the one whose name
/// it is, or whose id begins so. Events outlive the daemon's memory of their job.
Status TakeJob(const std::string& words, const TenantIdentity& tenant, EventOrder* order) {
  if (ParseJob(words).has_value()) {
    order->filter.job = words;
    return Status::Ok();
  }
  if (words.size() > kMostJobWordsBytes) {
    return InvalidArgument("a job's name or id has {} bytes at most", kMostJobWordsBytes);
  }
  order->job = {.text = words, .id_of_name = JobOfName(words, tenant.across_hosts).text()};
  return Status::Ok();
}

Result<EventOrder> OrderIn(const HttpRequest& request) {
  HZ_RETURN_IF_ERROR(CheckParameters(request));
  EventOrder order;
  if (const auto types = Find(request.query, "types")) {
    HZ_ASSIGN_OR_RETURN(order.filter.types, ParseEventTypes(*types));
  }
  if (const auto job = Find(request.query, "job")) {
    HZ_RETURN_IF_ERROR(TakeJob(*job, request.caller.tenant, &order));
  }
  if (const auto severity = Find(request.query, "severity")) {
    const std::optional<Severity> least = SeverityNamed(*severity);
    if (!least.has_value()) {
      return InvalidArgument("'{}' is no severity: there are INFO, WARN, ERROR and FATAL",
                             *severity);
    }
    order.filter.least_severity = *least;
  }
  // A browser that connects anew says in the header where it was.
  std::optional<std::string> after = Find(request.headers, "last-event-id");
  if (!after.has_value()) after = Find(request.query, "after");
  if (after.has_value()) {
    order.after = ParseEventCursor(*after);
    if (!order.after.has_value()) {
      return InvalidArgument(
          "'{}' is no event's id: it is the `id` of an event, or what a stream's "
          "line `id:` held",
          *after);
    }
  }
  if (const auto from = Find(request.query, "from")) {
    if (*from != "start" && *from != "now") {
      return InvalidArgument("'from' is 'start' or 'now', not '{}'", *from);
    }
    order.from_the_start = *from == "start";
  }
  return order;
}

Result<size_t> LimitIn(const HttpRequest& request) {
  const auto text = Find(request.query, "limit");
  if (!text.has_value()) return kEventsOfPage;
  size_t limit = 0;
  const char* const end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, limit);
  if (error != std::errc() || stop != end || limit == 0 || limit > kMostEventsOfPage) {
    return InvalidArgument("'limit' is a number from 1 to {}, not '{}'", kMostEventsOfPage, *text);
  }
  return limit;
}

/// Returns whether the caller wants to hear events as they come.
bool Follows(const HttpRequest& request) {
  if (const auto follow = Find(request.query, "follow")) return *follow == "true";
  const auto accept = Find(request.headers, "accept");
  return accept.has_value() && accept->find("text/event-stream") != std::string::npos;
}

EventReader ReaderOf(const HttpCaller& caller) {
  return {.tenant = caller.tenant, .is_operator = caller.is_operator()};
}

void AnswerPage(EventBus& bus, std::shared_ptr<HttpExchange> exchange, EventOrder order) {
  const Result<size_t> limit = LimitIn(exchange->request());
  if (!limit.ok()) return exchange->Respond(HttpProblem(limit.status()));
  // A page without a beginning begins with what is kept.
  if (!order.after.has_value() && !exchange->request().query.contains("from")) {
    order.from_the_start = true;
  }
  const EventReader reader = ReaderOf(exchange->request().caller);
  bus.Read(reader, std::move(order), *limit, [exchange](const Result<EventChannel::Page>& page) {
    if (!page.ok()) return exchange->Respond(EventsProblem(page.status()));
    HttpResponse response;
    response.body =
        fmt::format("{{\"events\":{},\"next\":{},\"missed\":{},\"more\":{}}}", page->events,
                    page->next.empty() ? "null" : '"' + page->next + '"', page->missed, page->more);
    exchange->Respond(std::move(response));
  });
}

void ServeEvents(EventBus& bus, std::shared_ptr<HttpExchange> exchange) {
  Result<EventOrder> order = OrderIn(exchange->request());
  if (!order.ok()) return exchange->Respond(HttpProblem(order.status()));
  if (!Follows(exchange->request())) {
    return AnswerPage(bus, std::move(exchange), std::move(*order));
  }
  const EventReader reader = ReaderOf(exchange->request().caller);
  FollowEvents(&bus, reader, std::move(*order), std::move(exchange));
}

HttpResponse SchemaAt(const HttpParameters& parameters) {
  const std::optional<EventType> type = EventTypeNamed(parameters.at("type"));
  if (!type.has_value() ||
      parameters.at("version") != std::to_string(InfoOf(*type).schema_version)) {
    return HttpProblem(404, "there is no such schema; GET /v1/event-types lists them");
  }
  return {.content_type = "application/schema+json", .body = SchemaOf(*type)};
}

std::string ListOfTypes() {
  std::string list = "{\"event_types\":[";
  for (const EventTypeInfo& info : EventTypes()) {
    if (list.back() != '[') list += ',';
    list +=
        fmt::format(R"({{"type":"{}{}","severity":"{}","schema":"/v1/schemas/{}/{}","when":"{}"}})",
                    kEventTypePrefix, info.name, SeverityName(info.severity), info.name,
                    info.schema_version, info.when);
  }
  return list + "]}";
}

}  // namespace

std::vector<HttpRoute> EventRoutes(const ApiServices& services) {
  EventBus* const bus = services.bus;
  return {
      {.method = "GET",
       .pattern = "/v1/events",
       .audience = HttpAudience::kTenants,
       .serve = [bus](std::shared_ptr<HttpExchange> exchange,
                      const HttpParameters&) { ServeEvents(*bus, std::move(exchange)); }},
      {.method = "GET",
       .pattern = "/v1/event-types",
       .audience = HttpAudience::kTenants,
       .serve = [](std::shared_ptr<HttpExchange> exchange,
                   const HttpParameters&) { exchange->Respond({.body = ListOfTypes()}); }},
      {.method = "GET",
       .pattern = "/v1/schemas/{type}/{version}",
       .audience = HttpAudience::kTenants,
       .serve = [](std::shared_ptr<HttpExchange> exchange,
                   const HttpParameters& parameters) { exchange->Respond(SchemaAt(parameters)); }},
  };
}

}  // namespace harmonaize::daemon

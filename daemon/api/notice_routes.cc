#include "daemon/api/notice_routes.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "daemon/api/engine_answer.h"
#include "daemon/api/json_body.h"
#include "daemon/api/notice_documents.h"
#include "daemon/api/route_row.h"
#include "daemon/job_events/event_rooms.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

/// Finds out what a request to extend asks for.
Result<NoticeAnswers::MoreTime> MoreTimeIn(const std::string& text) {
  static constexpr std::string_view kFields[] = {"seconds", "until"};
  JsonBody body(text, kFields);
  NoticeAnswers::MoreTime more;
  more.seconds = body.Number("seconds", 1, NoticeAnswers::kMostAskedSeconds);
  const std::optional<int64_t> until = body.Time("until");
  if (until.has_value()) more.until_seconds = static_cast<double>(*until / 1'000'000'000);
  HZ_RETURN_IF_ERROR(body.status());
  if (more.seconds.has_value() == more.until_seconds.has_value()) {
    return InvalidArgument(
        "one of 'seconds', beyond the deadline, and 'until', a time, says how much is asked for");
  }
  return more;
}

/// Returns the event's id in a path, which may also be the longer one of a stream's line `id:`.
std::string EventIdIn(const HttpParameters& parameters) {
  const std::string& id = parameters.at("id");
  return id.substr(0, id.find('@'));
}

/// Answers for the tenant who calls: an operator answers for nobody else.
template <typename Answer>
void ServeAnswer(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
                 Answer answer) {
  const TenantIdentity tenant = exchange->request().caller.tenant;
  AnswerOnceKept(services, std::move(exchange),
                 [tenant, answer = std::move(answer)](EngineRooms& rooms) -> Result<json> {
                   HZ_ASSIGN_OR_RETURN(const ToldNotice told,
                                       answer(rooms.events().answers(), tenant));
                   return DescribeAnswer(told);
                 });
}

void ServeAcknowledge(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
                      const HttpParameters& parameters) {
  // The body has nothing to say, but a misspelt wish would else be lost.
  const std::string& text = exchange->request().body;
  const JsonBody body(text.empty() ? "{}" : text, {});
  if (!body.status().ok()) return exchange->Respond(HttpProblem(body.status()));
  ServeAnswer(services, std::move(exchange),
              [id = EventIdIn(parameters)](NoticeAnswers& answers, const TenantIdentity& tenant) {
                return answers.Acknowledge(tenant, id);
              });
}

void ServeExtend(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
                 const HttpParameters& parameters) {
  const Result<NoticeAnswers::MoreTime> more = MoreTimeIn(exchange->request().body);
  if (!more.ok()) return exchange->Respond(HttpProblem(more.status()));
  ServeAnswer(services, std::move(exchange),
              [id = EventIdIn(parameters), more = *more](NoticeAnswers& answers,
                                                         const TenantIdentity& tenant) {
                return answers.AskForMore(tenant, id, more);
              });
}

void ServePromises(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
                   const HttpParameters& /*parameters*/) {
  const HttpCaller caller = exchange->request().caller;
  AnswerFromEngine(services, std::move(exchange), [caller](EngineRooms& rooms) -> Result<json> {
    return PromisesDocument(rooms, caller.is_operator() ? nullptr : &caller.tenant);
  });
}

}  // namespace

std::vector<HttpRoute> NoticeRoutes(const ApiServices& services) {
  static constexpr RouteRow kRows[] = {
      {"POST", "/v1/events/{id}/acknowledge", HttpAudience::kTenants, ServeAcknowledge},
      {"POST", "/v1/events/{id}/extend", HttpAudience::kTenants, ServeExtend},
      {"GET", "/v1/promises", HttpAudience::kTenants, ServePromises}};
  return MakeRoutes(services, kRows);
}

}  // namespace harmonaize::daemon

#include "daemon/api/engine_answer.h"

#include <string>
#include <utility>

#include "daemon/api/json_body.h"
#include "daemon/http/entity_tags.h"
#include "daemon/job_events/event_rooms.h"
#include "daemon/runtime/background.h"
#include "daemon/sources/cloud_notice.h"
#include "src/base/json_text.h"

namespace harmonaize::daemon {
namespace {

/// Returns what a document says of what has changed: an announcement has an id and a state, a drain
/// a state.
AuditNote NoteOf(const nlohmann::json& document) {
  const auto word = [&](const char* name) {
    const auto found = document.find(name);
    return found != document.end() && found->is_string() ? found->get<std::string>()
                                                         : std::string();
  };
  if (!document.is_object()) return {};
  return {.id = word("id"), .state = word("state")};
}

/// Returns what a request that was refused asked for. Its body has been checked, or says nothing.
AuditNote NoteOf(const HttpRequest& request) {
  const nlohmann::json body = ReadJson(request.body);
  AuditNote note = NoteOf(body);
  // Longer ones were made to fill the log.
  if (note.id.size() > kMostNoticeIdBytes) note.id.resize(kMostNoticeIdBytes);
  if (note.state.size() > kMostNoticeIdBytes) note.state.resize(kMostNoticeIdBytes);
  return note;
}

HttpResponse Refusal(const HttpRequest& request, const Status& why) {
  HttpResponse response = HttpProblem(why);
  if (why.code() == Code::kUnavailable) response = HttpProblem(404, why.message());
  if (why.code() == Code::kInProgress) response = HttpProblem(429, why.message());
  if (request.method != "GET") response.note = NoteOf(request);
  return response;
}

void Answer(const EntityTags& tags, HttpExchange& exchange, const Result<DocumentMaker>& maker,
            int status = 200) {
  if (!maker.ok()) return exchange.Respond(Refusal(exchange.request(), maker.status()));
  const nlohmann::json document = (*maker)();
  HttpResponse response{.status = status, .body = DumpJson(document)};
  if (exchange.request().method == "GET") {
    tags.Apply(exchange.request(), &response);
  } else {
    response.note = NoteOf(document);
  }
  exchange.Respond(std::move(response));
}

/// `before` returns what is done before the answer, apart from the engine's thread.
void AskAndAnswer(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
                  AskForMaker ask, std::function<void()> (*before)(EngineRooms&)) {
  const uint32_t tenant = exchange->request().caller.tenant.number;
  // The answer keeps `ask`: what that refers to may take long to free.
  const auto kept = std::make_shared<const AskForMaker>(std::move(ask));
  const bool asked =
      services.gate->Post([services, tenant, exchange, kept, before](EngineRooms& rooms) {
        auto maker = std::make_shared<const Result<DocumentMaker>>((*kept)(rooms));
        services.work->Post(
            [tags = services.tags, exchange, kept, maker, first = before(rooms)] {
              first();
              Answer(*tags, *exchange, *maker);
            },
            tenant);
      });
  if (!asked) exchange->Respond(HttpProblem(503, "the daemon is about to end"));
}

AskForMaker MakerOf(std::function<Result<nlohmann::json>(EngineRooms&)> ask) {
  return [ask = std::move(ask)](EngineRooms& rooms) -> Result<DocumentMaker> {
    HZ_ASSIGN_OR_RETURN(auto document, ask(rooms));
    return DocumentMaker([document = std::move(document)] { return document; });
  };
}

}  // namespace

void AnswerFromEngine(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
                      std::function<Result<nlohmann::json>(EngineRooms&)> ask) {
  AnswerWithMaker(services, std::move(exchange), MakerOf(std::move(ask)));
}

void AnswerWithMaker(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
                     AskForMaker ask) {
  AskAndAnswer(services, std::move(exchange), std::move(ask),
               [](EngineRooms&) -> std::function<void()> { return [] {}; });
}

void AnswerLater(const ApiServices& services, std::shared_ptr<HttpExchange> exchange, int status,
                 std::function<void(EngineRooms&, AnswerDone)> ask) {
  const uint32_t tenant = exchange->request().caller.tenant.number;
  const AnswerDone done = [services, exchange, status, tenant](Result<nlohmann::json> answer) {
    services.work->Post(
        [tags = services.tags, exchange, status, answer = std::move(answer)] {
          Result<DocumentMaker> maker = answer.status();
          if (answer.ok()) maker = DocumentMaker([&answer] { return *answer; });
          Answer(*tags, *exchange, maker, status);
        },
        tenant);
  };
  const bool asked =
      services.gate->Post([done, ask = std::move(ask)](EngineRooms& rooms) { ask(rooms, done); });
  if (!asked) exchange->Respond(HttpProblem(503, "the daemon is about to end"));
}

void AnswerOnceKept(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
                    std::function<Result<nlohmann::json>(EngineRooms&)> ask) {
  AskAndAnswer(services, std::move(exchange), MakerOf(std::move(ask)),
               [](EngineRooms& rooms) { return rooms.events().records().Flusher(); });
}

}  // namespace harmonaize::daemon

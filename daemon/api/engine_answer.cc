#include "daemon/api/engine_answer.h"

#include <string>
#include <utility>

#include "daemon/api/json_body.h"
#include "daemon/http/entity_tags.h"
#include "daemon/job_events/event_rooms.h"
#include "daemon/runtime/background.h"

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

void Answer(const EntityTags& tags, HttpExchange& exchange,
            const Result<nlohmann::json>& document) {
  if (!document.ok()) {
    const Status why = document.status();
    if (why.code() == Code::kUnavailable) return exchange.Respond(HttpProblem(404, why.message()));
    if (why.code() == Code::kInProgress) return exchange.Respond(HttpProblem(429, why.message()));
    return exchange.Respond(HttpProblem(why));
  }
  HttpResponse response{.body = DumpJson(*document)};
  if (exchange.request().method == "GET") {
    tags.Apply(exchange.request(), &response);
  } else {
    response.note = NoteOf(*document);
  }
  exchange.Respond(std::move(response));
}

/// `before` returns what is done before the answer, apart from the engine's thread.
void AskAndAnswer(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
                  std::function<Result<nlohmann::json>(EngineRooms&)> ask,
                  std::function<void()> (*before)(EngineRooms&)) {
  const uint32_t tenant = exchange->request().caller.tenant.number;
  const bool asked = services.gate->Post(
      [services, tenant, exchange, ask = std::move(ask), before](EngineRooms& rooms) {
        auto document = std::make_shared<Result<nlohmann::json>>(ask(rooms));
        services.work->Post(
            [tags = services.tags, exchange, document, first = before(rooms)] {
              first();
              Answer(*tags, *exchange, *document);
            },
            tenant);
      });
  if (!asked) exchange->Respond(HttpProblem(503, "the daemon is about to end"));
}

}  // namespace

void AnswerFromEngine(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
                      std::function<Result<nlohmann::json>(EngineRooms&)> ask) {
  AskAndAnswer(services, std::move(exchange), std::move(ask),
               [](EngineRooms&) -> std::function<void()> { return [] {}; });
}

void AnswerOnceKept(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
                    std::function<Result<nlohmann::json>(EngineRooms&)> ask) {
  AskAndAnswer(services, std::move(exchange), std::move(ask),
               [](EngineRooms& rooms) { return rooms.events().records().Flusher(); });
}

}  // namespace harmonaize::daemon

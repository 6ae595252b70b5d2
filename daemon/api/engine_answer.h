#pragma once

#include <functional>
#include <memory>

#include <nlohmann/json.hpp>

#include "daemon/api/api_services.h"
#include "daemon/http/http_exchange.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// Answers a request with what `ask` returns on the engine's thread. A failure is answered with a
/// problem; kUnavailable means that there is no such thing, and is 404; kInProgress means that the
/// caller asks too often, and is 429. `ask` does little: the answer is put into text on another
/// thread, and what `ask` refers to is freed there.
void AnswerFromEngine(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
                      std::function<Result<nlohmann::json>(EngineRooms&)> ask);
/// Makes a document, apart from the engine's thread.
using DocumentMaker = std::function<nlohmann::json()>;
/// Returns on the engine's thread what makes the answer.
using AskForMaker = std::function<Result<DocumentMaker>(EngineRooms&)>;
/// Does so where even the document would take the engine long.
void AnswerWithMaker(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
                     AskForMaker ask);
/// Takes the answer, once. Thread: engine.
using AnswerDone = std::function<void(Result<nlohmann::json>)>;
/// Answers a request, as AnswerFromEngine does and with this status, with what `ask` hands to its
/// second argument, at once or later. The caller gets no answer if the engine ends before that.
void AnswerLater(const ApiServices& services, std::shared_ptr<HttpExchange> exchange, int status,
                 std::function<void(EngineRooms&, AnswerDone)> ask);
/// Does so for a request that announces, promises or answers something: what was done is on the
/// disk before the caller hears of it.
void AnswerOnceKept(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
                    std::function<Result<nlohmann::json>(EngineRooms&)> ask);

}  // namespace harmonaize::daemon

#include "daemon/api/event_stream.h"

#include <utility>

namespace harmonaize::daemon {

HttpResponse EventsProblem(const Status& why) {
  return why.code() == Code::kSystemError ? HttpProblem(503, why.message()) : HttpProblem(why);
}

// The bus opens the stream on its own thread, once it knows that the order holds.
void FollowEvents(EventBus* bus, const EventReader& reader, EventOrder order,
                  std::shared_ptr<HttpExchange> exchange) {
  const uint64_t number = bus->NextSubscription();
  EventBus::Subscribing calls;
  calls.open = [bus, reader, number, exchange]() -> EventSink {
    std::shared_ptr<HttpStream> stream =
        exchange->RespondWithStream([bus, reader, number](bool ended) {
          ended ? bus->Unsubscribe(reader, number) : bus->Resume(reader, number);
        });
    return
        [stream = std::move(stream)](std::string text) { return stream->Write(std::move(text)); };
  };
  calls.refuse = [exchange](const Status& why) { exchange->Respond(EventsProblem(why)); };
  bus->Subscribe(reader, number, std::move(order), std::move(calls));
}

}  // namespace harmonaize::daemon

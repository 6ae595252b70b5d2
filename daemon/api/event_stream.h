#pragma once

#include <memory>

#include "daemon/events/event_bus.h"
#include "daemon/http/http_exchange.h"

namespace harmonaize::daemon {

/// Returns the answer to a request for events that failed. Logs that cannot be read now can be
/// later, once the disk has room again, so that is 503.
HttpResponse EventsProblem(const Status& why);

/// Answers with a stream of the events that the order asks for, until the caller hangs up. An order
/// that the bus refuses is answered with a problem. Requires: `bus` outlives the HTTP server.
void FollowEvents(EventBus* bus, const EventReader& reader, EventOrder order,
                  std::shared_ptr<HttpExchange> exchange);

}  // namespace harmonaize::daemon

#pragma once

#include <memory>

#include "daemon/events/event_bus.h"
#include "daemon/http/http_exchange.h"

namespace harmonaize::daemon {

/// Answers with a stream of the events that the order asks for, until the caller hangs up. An order
/// that the bus refuses is answered with a problem. Requires: `bus` outlives the HTTP server.
void FollowEvents(EventBus* bus, const EventReader& reader, EventOrder order,
                  std::shared_ptr<HttpExchange> exchange);

}  // namespace harmonaize::daemon

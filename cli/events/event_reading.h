#pragma once

#include "cli/daemon_http.h"
#include "cli/events/event_output.h"
#include "src/base/status.h"
#include "src/client/events/event_subscription.h"

namespace harmonaize {

// Both of these write to `output` until it is done. Errors: those of CallDaemon, with the daemon's
// reason where it refuses the query.

/// Writes the events that the daemon keeps.
Status ReadKeptEvents(const DaemonHttp& daemon, const EventQuery& query, EventOutput* output);

/// Writes events as they come. When the daemon has gone it waits for it to come back, and goes on
/// behind the last event.
Status FollowEvents(const DaemonHttp& daemon, const EventQuery& query, EventOutput* output);

}  // namespace harmonaize

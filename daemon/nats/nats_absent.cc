// In place of nats_connection.cc where libnats is missing.

#include "daemon/nats/nats_connection.h"

namespace harmonaize::daemon {

Result<std::unique_ptr<NatsLink>> MakeNatsLink(NatsSettings /*settings*/) {
  return InvalidUsage(
      "events.nats names servers, but this daemon was built without libnats; build it where "
      "libnats-dev is installed, or leave events.nats out");
}

}  // namespace harmonaize::daemon

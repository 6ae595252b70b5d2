#include "daemon/cluster/messages/event.h"

#include "daemon/cluster/messages/codec.h"
#include "daemon/cluster/messages/fields.h"

namespace harmonaize::daemon {

HARMONAIZE_FIELDS(EventMessage, about, unique, type, subject, time_ns, severity, expiry_ns, data)

static bool IsSound(const EventMessage& event) {
  return event.about != 0 && event.unique != 0 && event.time_ns >= 0 && event.expiry_ns >= 0;
}

Status Read(uint64_t kind, const nlohmann::json& document, JobMessage* message) {
  return fields::ReadOneOf(kind, document, message);
}

nlohmann::json Write(const JobMessage& message) {
  return fields::WriteOneOf(message);
}

}  // namespace harmonaize::daemon

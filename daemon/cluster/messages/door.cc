#include "daemon/cluster/messages/door.h"

#include "daemon/cluster/messages/codec.h"
#include "daemon/cluster/messages/fields.h"
#include "src/ipc/unique_id.h"

namespace harmonaize::daemon {

HARMONAIZE_FIELDS(KnockMessage, door, user, id)
HARMONAIZE_FIELDS(KnockRefusedMessage, id, status)

static bool IsSound(const KnockMessage& knock) {
  return knock.door.size() == sizeof(UniqueId::token) && knock.id.size() == sizeof(UniqueId);
}

static bool IsSound(const KnockRefusedMessage& refused) {
  return refused.id.size() == sizeof(UniqueId) && !refused.status.ok();
}

constinit const SubjectCodec kDoorCodec = fields::CodecOf(DoorMessages());

}  // namespace harmonaize::daemon

#pragma once

#include <memory>

#include "daemon/access/engine_rooms.h"
#include "daemon/tenant/connection.h"
#include "daemon/tenant/region.h"
#include "daemon/tenant/session.h"
#include "src/base/status.h"
#include "src/ipc/control_socket.h"
#include "src/ipc/messages.h"

namespace harmonaize::daemon {

/// Answers a request of a session about checkpoints. `memory` is that of a LendBufferRequest.
/// Returns the error to answer with, where there is one. Thread: engine.
Status AnswerCheckpointRequest(EngineRooms& rooms, Session& session,
                               const std::shared_ptr<Connection>& connection,
                               const MessageHeader& header, const ControlMessage& message,
                               std::shared_ptr<RegionMemory> memory);

}  // namespace harmonaize::daemon

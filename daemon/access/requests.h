#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "daemon/access/engine_rooms.h"
#include "daemon/tenant/connection.h"
#include "daemon/tenant/region.h"
#include "src/ipc/control_socket.h"
#include "src/ipc/messages.h"

namespace harmonaize::daemon {

/// Answers one request of a session that has said hello, now or once the answer is known. `region`
/// is the memory of a RegisterRegionRequest, LendBufferRequest, OpenProfileRequest or
/// OpenTuningRequest, paid for. An exception ends this request alone, with an error reply, or this
/// session. Thread: engine.
void AnswerRequest(EngineRooms& rooms, uint32_t session,
                   const std::shared_ptr<Connection>& connection, const ControlMessage& message,
                   std::shared_ptr<RegionMemory> region);

/// Runs `answer`, which answers a request on the connection. An exception becomes the reply, or
/// ends the connection. Thread: engine.
void AnswerGuarded(Connection& connection, MessageType type, const std::function<void()>& answer);

/// Answers a status request, which needs no session: an operator's look must not count as a tenant.
/// Thread: engine.
void AnswerStatus(EngineRooms& rooms, Connection& connection);

/// Answers a request to explain the choice of paths, which needs no session either. Thread: engine.
void AnswerExplain(EngineRooms& rooms, Connection& connection, const ExplainRequest& request);

/// Answers a request to probe the network, which needs no session either; the answers come later.
/// Thread: engine.
void AnswerProbe(EngineRooms& rooms, const std::shared_ptr<Connection>& connection,
                 const ProbeRequest& request, const std::string& addresses);
/// Cancels the probe of a connection that has hung up. Thread: engine.
void ForgetAsker(EngineRooms& rooms, const Connection& connection);

}  // namespace harmonaize::daemon

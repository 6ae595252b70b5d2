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
/// is what a RegisterRegionRequest brought, mapped and paid for. An exception ends this request
/// alone, with an error reply, or this session. Engine thread only.
void AnswerRequest(EngineRooms& rooms, uint32_t session,
                   const std::shared_ptr<Connection>& connection, const ControlMessage& message,
                   std::shared_ptr<RegionMemory> region);

/// Runs `answer`, which answers a request on a connection without a session. An exception becomes
/// the reply, or ends the connection. Engine thread only.
void AnswerGuarded(Connection& connection, MessageType type, const std::function<void()>& answer);

/// Answers a status request, which needs no session: an operator's look must not count as a tenant.
/// Engine thread only.
void AnswerStatus(EngineRooms& rooms, Connection& connection);

/// The same for a request to explain the choice of paths.
void AnswerExplain(EngineRooms& rooms, Connection& connection, const ExplainRequest& request);

/// The same for a request to probe the network; its answers come later.
void AnswerProbe(EngineRooms& rooms, const std::shared_ptr<Connection>& connection,
                 const ProbeRequest& request, const std::string& addresses);
/// Who asked without a session has hung up.
void ForgetAsker(EngineRooms& rooms, const Connection& connection);

}  // namespace harmonaize::daemon

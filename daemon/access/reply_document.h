#pragma once

#include <memory>
#include <string>
#include <utility>

#include "daemon/quota/holdings.h"
#include "daemon/tenant/connection.h"
#include "src/ipc/messages.h"

namespace harmonaize::daemon {

/// Replies with the first piece of a text that is too long for one message; `reply` says how long
/// it is. The connection keeps the text until its next request to the engine, and its tenant pays
/// for that.
template <typename Reply>
void ReplyDocument(Connection& connection, MessageType type, std::string text, const Reply& reply) {
  Result<Holding> memory =
      connection.account()->Take(Resource::kMemory, static_cast<int64_t>(text.size()));
  if (!memory.ok()) return connection.ReplyFailure(type, memory.status());
  connection.ReplyDocument(
      type, reply, std::make_shared<const Document>(Document{std::move(text), std::move(*memory)}));
}
inline void ReplyDocument(Connection& connection, MessageType type, std::string text) {
  const DocumentReply reply{text.size()};
  ReplyDocument(connection, type, std::move(text), reply);
}

}  // namespace harmonaize::daemon

#include "shim/daemon_call.h"

#include <utility>

#include "src/base/file_descriptor.h"
#include "src/ipc/daemon_search.h"
#include "src/ipc/socket_path.h"

namespace harmonaize::shim {
namespace {

/// Milliseconds within which a daemon must take a call, and answer.
constexpr int kAnsweredWithinMs = 5000;

}  // namespace

Result<HttpReply> AskDaemon(const HttpCall& call) {
  HZ_ASSIGN_OR_RETURN(const FileDescriptor socket, FindDaemonHttp(ClientSocketPlaces()));
  return CallHttp(socket, call, kAnsweredWithinMs);
}

Result<std::string> CallDaemon(const HttpCall& call) {
  HZ_ASSIGN_OR_RETURN(HttpReply reply, AskDaemon(call));
  if (reply.status != 200) return InvalidUsage("{}", ProblemIn(reply));
  return std::move(reply.body);
}

}  // namespace harmonaize::shim

#pragma once

#include <string>

#include "cli/json_view.h"
#include "src/base/status.h"
#include "src/ipc/http_client.h"
#include "src/ipc/socket_path.h"

namespace harmonaize {

/// Where a command reaches the HTTP interface of a daemon.
struct DaemonHttp {
  SocketPlace place;         ///< Of the socket beside which HTTP is served.
  bool as_operator = false;  ///< Whether it is the operators' socket.
};

/// Finds the daemon at `socket`; "": the first of those that a client tries. A user who may connect
/// at its operators' socket is taken there, and told more. Errors: kUnavailable.
Result<DaemonHttp> FindHttp(const std::string& socket);
/// Finds the tenants' socket of the daemon at `socket`, for what is done as a tenant, also for
/// users who may connect at the operators'. Errors: kUnavailable.
Result<DaemonHttp> FindTenantsHttp(const std::string& socket);
/// Finds the operators' socket of the daemon at `socket`. Errors: kUnavailable, also if this user
/// may not connect there.
Result<DaemonHttp> FindOperatorsHttp(const std::string& socket);

/// Makes a call over a connection of its own and returns the answer's body. It waits some seconds
/// at most. A call that only reads is made again if the daemon takes no more calls of this user for
/// the moment. Errors: kUnavailable, kRemoteError, and kInvalidUsage with the reason that the
/// daemon gives where it refuses.
Result<std::string> CallDaemon(const DaemonHttp& daemon, const HttpCall& call);
/// Gets a JSON object. Errors: those of CallDaemon, and kRemoteError for anything else.
Result<Json> GetDocument(const DaemonHttp& daemon, const std::string& target);

}  // namespace harmonaize

#include "cli/daemon_http.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "src/ipc/daemon_search.h"
#include "src/ipc/operator_socket.h"

namespace harmonaize {
namespace {

/// Milliseconds within which a daemon must answer.
constexpr int kReplyWithinMs = 5000;
/// The status with which a daemon takes no more calls for the moment (RFC 6585), how often such a
/// call is made again, and after which pause. A daemon lets a caller have the next one within some
/// tens of milliseconds.
constexpr int kTooManyRequests = 429;
constexpr int kMostAttempts = 20;
constexpr std::chrono::milliseconds kPauseBetweenAttempts(250);

/// Returns the place at which a trusted daemon listens.
Result<SocketPlace> FindPlace(const std::string& socket) {
  const std::vector<SocketPlace> places =
      socket.empty() ? ClientSocketPlaces()
                     : std::vector<SocketPlace>{{.path = socket, .named = true}};
  HZ_ASSIGN_OR_RETURN(const DaemonConnection daemon, ConnectToDaemon(places));
  return *std::find_if(places.begin(), places.end(),
                       [&](const SocketPlace& place) { return place.path == daemon.path; });
}

SocketPlace OperatorsPlace(const SocketPlace& tenants) {
  return {.path = OperatorSocketPath(tenants.path), .named = tenants.named};
}

Result<HttpReply> CallOnce(const DaemonHttp& daemon, const HttpCall& call) {
  HZ_ASSIGN_OR_RETURN(const FileDescriptor socket, FindDaemonHttp({daemon.place}));
  return CallHttp(socket, call, kReplyWithinMs);
}

}  // namespace

Result<DaemonHttp> FindHttp(const std::string& socket) {
  HZ_ASSIGN_OR_RETURN(SocketPlace place, FindPlace(socket));
  if (const SocketPlace operators = OperatorsPlace(place); FindDaemonHttp({operators}).ok()) {
    return DaemonHttp{.place = operators, .as_operator = true};
  }
  return DaemonHttp{.place = std::move(place), .as_operator = false};
}

Result<DaemonHttp> FindTenantsHttp(const std::string& socket) {
  HZ_ASSIGN_OR_RETURN(SocketPlace place, FindPlace(socket));
  return DaemonHttp{.place = std::move(place), .as_operator = false};
}

Result<DaemonHttp> FindOperatorsHttp(const std::string& socket) {
  HZ_ASSIGN_OR_RETURN(const SocketPlace place, FindPlace(socket));
  const SocketPlace operators = OperatorsPlace(place);
  const Result<FileDescriptor> connection = FindDaemonHttp({operators});
  if (!connection.ok()) {
    return Unavailable(
        "{}; operators are root, the user who runs the daemon, and the members of "
        "the group that it lets in",
        connection.status().message());
  }
  return DaemonHttp{.place = operators, .as_operator = true};
}

Result<std::string> CallDaemon(const DaemonHttp& daemon, const HttpCall& call) {
  const int most_attempts = call.method == "GET" ? kMostAttempts : 1;
  for (int attempt = 1;; ++attempt) {
    HZ_ASSIGN_OR_RETURN(HttpReply reply, CallOnce(daemon, call));
    if (reply.status >= 200 && reply.status < 300) return std::move(reply.body);
    if (reply.status != kTooManyRequests || attempt == most_attempts) {
      return InvalidUsage("{}", ProblemIn(reply));
    }
    std::this_thread::sleep_for(kPauseBetweenAttempts);
  }
}

Result<Json> GetDocument(const DaemonHttp& daemon, const std::string& target) {
  HZ_ASSIGN_OR_RETURN(const std::string body, CallDaemon(daemon, {.target = target}));
  return ParseDocument(body);
}

}  // namespace harmonaize

#include "src/ipc/daemon_search.h"

#include <fmt/ranges.h>

#include <utility>

#include "src/base/log.h"
#include "src/base/user_numbers.h"
#include "src/ipc/daemon_trust.h"
#include "src/ipc/http_socket.h"
#include "src/ipc/socket_folder.h"

namespace harmonaize {
namespace {

Status Believe(const ControlSocket& socket, const SocketPlace& place) {
  HZ_ASSIGN_OR_RETURN(const PeerCredentials peer, socket.Peer());
  return CheckDaemonUser(peer.user, place, kDaemonUserFile, UserNumbers::OfThisProcess());
}

/// Connects to the daemon at a place. Appends to `distrusted` why a daemon there is not trusted.
Result<ControlSocket> Try(const SocketPlace& place, int type, int within_ms,
                          std::vector<std::string>* distrusted) {
  const auto distrust = [&](const Status& why) {
    distrusted->push_back(why.message());
    return why;
  };
  const Status folder = place.named ? Status::Ok() : CheckSocketFolder(place.path);
  if (!folder.ok()) {
    return distrust(Unavailable("no daemon is sought at {}: {}", place.path, folder.message()));
  }
  Result<ControlSocket> socket = ControlSocket::Connect(place.path, type, within_ms);
  if (!socket.ok()) return socket;
  const Status belief = Believe(*socket, place);
  if (!belief.ok()) return distrust(belief);
  return socket;
}

Result<DaemonConnection> Find(const std::vector<SocketPlace>& places, int type, int within_ms) {
  std::vector<std::string> reasons;
  std::vector<std::string> distrusted;
  for (const SocketPlace& place : places) {
    Result<ControlSocket> socket = Try(place, type, within_ms, &distrusted);
    if (socket.ok()) {
      for (const std::string& why : distrusted) Log(LogLevel::kWarning, kLogInit, "{}", why);
      return DaemonConnection{std::move(*socket), place.path};
    }
    reasons.push_back(socket.status().message());
  }
  return Unavailable("{}", fmt::join(reasons, "; "));
}

}  // namespace

Result<DaemonConnection> FindDaemon(const std::vector<SocketPlace>& places, int within_ms) {
  return Find(places, SOCK_SEQPACKET, within_ms);
}

Result<FileDescriptor> FindDaemonHttp(const std::vector<SocketPlace>& places) {
  std::vector<SocketPlace> http = places;
  for (SocketPlace& place : http) place.path = HttpSocketPath(place.path);
  HZ_ASSIGN_OR_RETURN(DaemonConnection daemon,
                      Find(http, SOCK_STREAM, ControlSocket::kConnectWithinMs));
  return daemon.socket.TakeDescriptor();
}

Result<DaemonConnection> ConnectToDaemon(const std::vector<SocketPlace>& places) {
  Result<DaemonConnection> daemon = FindDaemon(places);
  if (daemon.ok()) return daemon;
  return Unavailable(
      "{}; start one with `harmonaized`, or point HARMONAIZE_SOCKET at a running one",
      daemon.status().message());
}

}  // namespace harmonaize

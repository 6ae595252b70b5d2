#pragma once

#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/ipc/control_socket.h"
#include "src/ipc/socket_path.h"

namespace harmonaize {

/// A daemon that a client has reached, and believes.
struct DaemonConnection {
  ControlSocket socket;
  std::string path;
};

/// Connects to the first daemon of these places that listens and is to be believed
/// (daemon_trust.h). Warns of those that were passed over because they are not. kUnavailable says
/// for each place why there is none.
Result<DaemonConnection> FindDaemon(const std::vector<SocketPlace>& places);

/// The same, with the way out in the error.
Result<DaemonConnection> ConnectToDaemon(const std::vector<SocketPlace>& places);

}  // namespace harmonaize

#pragma once

#include <string>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"
#include "src/ipc/control_socket.h"
#include "src/ipc/socket_path.h"

namespace harmonaize {

/// A trusted daemon to which a client is connected.
struct DaemonConnection {
  ControlSocket socket;
  std::string path;
};

/// Connects to the first daemon at these places that listens and is trusted (daemon_trust.h), and
/// warns of those it passed over because they are not. Errors: kUnavailable, with the reason for
/// each place. `within_ms`: as ControlSocket::kConnectWithinMs.
Result<DaemonConnection> FindDaemon(const std::vector<SocketPlace>& places,
                                    int within_ms = ControlSocket::kConnectWithinMs);

/// Connects to the HTTP socket beside the first of these places at which a trusted daemon listens.
/// Errors: as FindDaemon.
Result<FileDescriptor> FindDaemonHttp(const std::vector<SocketPlace>& places);

/// Does what FindDaemon does. The error also tells the user how to get a daemon.
Result<DaemonConnection> ConnectToDaemon(const std::vector<SocketPlace>& places);

}  // namespace harmonaize

#pragma once

#include <sys/types.h>

#include <vector>

#include "src/base/status.h"
#include "src/ipc/control_socket.h"

namespace harmonaize::daemon {

/// Closes connections that the front door does not let in. What a stranger has sent over one may
/// hold descriptors, and the kernel may wait for a stranger when it closes these: for a socket that
/// lingers, say. Such a connection is closed by the end of a process that does nothing else.
class RefusedConnections {
 public:
  RefusedConnections() = default;
  ~RefusedConnections();
  RefusedConnections(const RefusedConnections&) = delete;
  RefusedConnections& operator=(const RefusedConnections&) = delete;

  /// Tells the other side why, and closes the connection, now or soon.
  void Refuse(ControlSocket socket, const Status& why);
  /// Closes those that wait; call now and then.
  void CloseWaiting();

 private:
  std::vector<ControlSocket> waiting_;
  std::vector<pid_t> closers_;  // processes that have not been waited for
};

}  // namespace harmonaize::daemon

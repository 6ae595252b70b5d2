#pragma once

#include <sys/types.h>

#include <vector>

#include "src/base/status.h"
#include "src/ipc/control_socket.h"

namespace harmonaize::daemon {

/// Closes connections that the front door does not let in. What a stranger has sent over one may
/// hold descriptors, and the kernel may wait for a stranger when it closes these: for a socket that
/// lingers, say. So they are closed by the end of a process that does nothing else.
class RefusedConnections {
 public:
  RefusedConnections() = default;
  ~RefusedConnections();
  RefusedConnections(const RefusedConnections&) = delete;
  RefusedConnections& operator=(const RefusedConnections&) = delete;

  /// Tells the other side why, and closes the connection, now or soon. An unread reason takes
  /// memory of the kernel that counts as the daemon's. So a user who leaves many unread is told
  /// none.
  void Refuse(ControlSocket socket, const Status& why);
  /// Closes those that wait, when it is time; call after `TimeoutMs` at the latest.
  void CloseWaiting();
  /// Closes all at once, also those whose other side has not read why: it can still.
  void CloseAll();
  /// For how long CloseWaiting has nothing to do; -1: until Refuse is called.
  int TimeoutMs() const;

 private:
  void LetGoOfWhatWasRead();

  struct Told {
    ControlSocket socket;
    uid_t user = 0;
  };
  std::vector<Told> told_;  // have not read why
  uint64_t next_ns_ = 0;    // when CloseWaiting has something to do
  std::vector<ControlSocket> waiting_;
  std::vector<pid_t> closers_;  // processes that have not been waited for
};

}  // namespace harmonaize::daemon

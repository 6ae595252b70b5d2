#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"
#include "src/ipc/control_socket.h"

namespace harmonaize::daemon {

/// Closes connections that the front door does not let in, elsewhere (close_elsewhere.h).
class RefusedConnections {
 public:
  RefusedConnections() = default;
  ~RefusedConnections();
  RefusedConnections(const RefusedConnections&) = delete;
  RefusedConnections& operator=(const RefusedConnections&) = delete;

  /// Tells the other side why, and closes the connection, now or soon. An unread reason takes
  /// memory of the kernel that counts as the daemon's, so a user who leaves many unread is told
  /// none.
  void Refuse(ControlSocket socket, const Status& why);
  /// Does so on a connection of HTTP.
  void RefuseHttp(ControlSocket socket, const Status& why);
  /// Closes the connections that wait, when it is time. To be called after `TimeoutMs` at the
  /// latest.
  void CloseWaiting();
  /// Closes all connections at once. Sides that have not read why can still read it.
  void CloseAll();
  /// Returns for how long CloseWaiting has nothing to do, in milliseconds; -1: until Refuse is
  /// called.
  int TimeoutMs() const;

 private:
  void RefuseWith(ControlSocket socket, std::span<const std::byte> reply);
  void LetGoOfWhatWasRead();

  struct Told {
    ControlSocket socket;
    uid_t user = 0;
  };
  std::vector<Told> told_;  // connections whose other side has not read why
  uint64_t next_ns_ = 0;    // when CloseWaiting has something to do
  std::vector<FileDescriptor> waiting_;
};

}  // namespace harmonaize::daemon

#pragma once

#include <sys/socket.h>

#include <cstdint>

#include "src/ipc/control_socket.h"
#include "src/ipc/messages.h"

namespace harmonaize::daemon {

/// The control socket of one tenant process. The server thread receives from it, the engine thread
/// answers on it; it is closed when both have let go.
class Connection {
 public:
  Connection(ControlSocket socket, PeerCredentials peer, FileDescriptor process)
      : socket_(std::move(socket)), peer_(peer), process_(std::move(process)) {}

  const PeerCredentials& peer() const { return peer_; }
  int fd() const { return socket_.fd(); }
  /// Readable once the process has ended; -1 where the kernel gave none.
  int process_fd() const { return process_.get(); }
  Result<ControlMessage> Receive() { return socket_.Receive(0); }

  /// Answers; a tenant that does not read its answers is cut off.
  template <typename Body>
  void Reply(MessageType type, const Body& body, std::span<const int> descriptors = {}) {
    SendOrCut(Encode(type, body), descriptors);
  }
  void ReplyFailure(MessageType type, const Status& status) {
    SendOrCut(EncodeFailure(type, status), {});
  }

  /// Of the engine's thread: the probe that was asked for over it and has not ended; 0: none.
  uint64_t probe = 0;

  /// Ends the connection; the server thread sees the end of the stream and cleans up.
  void Cut() { shutdown(socket_.fd(), SHUT_RDWR); }

 private:
  void SendOrCut(const std::vector<std::byte>& bytes, std::span<const int> descriptors) {
    if (!socket_.Send(bytes, descriptors).ok()) Cut();
  }

  ControlSocket socket_;
  PeerCredentials peer_;
  FileDescriptor process_;
};

}  // namespace harmonaize::daemon

#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"

namespace harmonaize {

/// Identity of the process at the other end, as the kernel states it.
struct PeerCredentials {
  pid_t process = 0;
  uid_t user = 0;
  gid_t group = 0;
};

/// One message of the control socket, with the descriptors that came with it.
struct ControlMessage {
  std::vector<std::byte> bytes;
  std::vector<FileDescriptor> descriptors;
  /// kSystemError where not all descriptors arrived: this process has no free ones, or the other
  /// side sent too many.
  Status descriptors_status = {};
};

/// The longest message either side sends; a longer one is a protocol violation.
inline constexpr size_t kMaxControlMessageBytes = 64 * 1024;
/// Descriptors that one message may carry.
inline constexpr size_t kMaxDescriptorsPerMessage = 4;

/// One end of a Unix SOCK_SEQPACKET connection. Thread: one at a time.
class ControlSocket {
 public:
  ControlSocket() = default;
  explicit ControlSocket(FileDescriptor fd) : fd_(std::move(fd)) {}

  /// Errors: kUnavailable, with the path, where nobody listens or this user may not connect.
  /// Clients use FindDaemon (daemon_search.h), which checks which user listens.
  /// `within_ms`: as kConnectWithinMs.
  static Result<ControlSocket> Connect(const std::string& path, int type = SOCK_SEQPACKET,
                                       int within_ms = kConnectWithinMs);
  /// Longest wait, in milliseconds, for room in a listener's queue of connections, and for a peer
  /// to receive.
  static constexpr int kConnectWithinMs = 10'000;

  /// Sends all of it or fails; never raises SIGPIPE. kRemoteError when the peer is gone or does not
  /// read.
  Status Send(std::span<const std::byte> bytes, std::span<const int> descriptors = {});

  /// Returns the next message. Errors: kRemoteError at the end of the stream; kInProgress when
  /// nothing came within `timeout_ms` (-1: no limit).
  Result<ControlMessage> Receive(int timeout_ms);

  Result<PeerCredentials> Peer() const;

  /// Returns a descriptor of the process that connected, which becomes readable when the process
  /// ends; none where it has ended already, or no descriptors are left. Before Linux 6.5 it is
  /// found by its `number`, which another process may have by then: use it only to tell when to
  /// hang up.
  FileDescriptor PeerProcess(pid_t number) const;

  /// Returns whether the other side has yet to receive something that was sent; false once that
  /// side is closed. The data lies in the kernel's memory, at the sender's cost, until then.
  bool HasUnread() const;

  /// Returns whether the other side has hung up. Does not block.
  bool PeerGone() const;

  int fd() const { return fd_.get(); }
  bool valid() const { return fd_.valid(); }
  void Close() { fd_.Reset(); }
  FileDescriptor TakeDescriptor() { return std::move(fd_); }
  /// Forgets the descriptor without closing it: other code has closed it, and its number may stand
  /// for another file by now.
  void Abandon() { fd_.Release(); }

 private:
  FileDescriptor fd_;
};

/// Makes a listening socket at `path`, with its folder as in MakeSocketFolder. Replaces the socket
/// that a dead daemon left. `type` is SOCK_SEQPACKET for control messages, or SOCK_STREAM. Errors:
/// a live daemon listens at `path` already.
Result<FileDescriptor> ListenAt(const std::string& path, mode_t socket_mode,
                                int type = SOCK_SEQPACKET);

}  // namespace harmonaize

#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"

namespace harmonaize {

/// Who is at the other end, as the kernel says.
struct PeerCredentials {
  pid_t process = 0;
  uid_t user = 0;
  gid_t group = 0;
};

/// One message of the control socket, with the descriptors that came along.
struct ControlMessage {
  std::vector<std::byte> bytes;
  std::vector<FileDescriptor> descriptors;
  /// kSystemError where not all descriptors came along: this process is out of them, or the other
  /// side sent too many.
  Status descriptors_status = {};
};

/// The longest message either side sends; a longer one is a protocol violation.
inline constexpr size_t kMaxControlMessageBytes = 64 * 1024;
/// Descriptors that one message may carry.
inline constexpr size_t kMaxDescriptorsPerMessage = 4;

/// One end of a Unix SOCK_SEQPACKET connection. Not thread safe.
class ControlSocket {
 public:
  ControlSocket() = default;
  explicit ControlSocket(FileDescriptor fd) : fd_(std::move(fd)) {}

  /// kUnavailable, with the path, where nobody listens or this user may not connect. Clients go by
  /// FindDaemon (daemon_search.h), which looks who it is that listens.
  static Result<ControlSocket> Connect(const std::string& path);

  /// Sends all of it or fails; never raises SIGPIPE. kRemoteError when the peer is gone or does not
  /// read.
  Status Send(std::span<const std::byte> bytes, std::span<const int> descriptors = {});

  /// The next message. kRemoteError at the end of the stream; kInProgress when nothing came within
  /// `timeout_ms` (-1: no limit).
  Result<ControlMessage> Receive(int timeout_ms);

  Result<PeerCredentials> Peer() const;

  /// A descriptor of the process that connected, which becomes readable when it ends; none where it
  /// has ended already, or there are no descriptors left. Before Linux 6.5 it is found by its
  /// `number`, which may have passed on to another process by then: it tells when to hang up, and
  /// nothing else may rest on it.
  FileDescriptor PeerProcess(pid_t number) const;

  /// Whether something was sent that the other side has not received. It lies in the kernel's
  /// memory, at the sender's cost, for as long as the other side keeps its end. False once that is
  /// closed.
  bool HasUnread() const;

  /// Whether the other side has hung up. Does not block.
  bool PeerGone() const;

  int fd() const { return fd_.get(); }
  bool valid() const { return fd_.valid(); }
  void Close() { fd_.Reset(); }
  /// Forgets the descriptor without closing it: somebody else has, and its number may stand for
  /// another file by now.
  void Abandon() { fd_.Release(); }

 private:
  FileDescriptor fd_;
};

/// Makes a listening socket at `path`, with its folder as in MakeSocketFolder. Refuses, naming the
/// path, when a live daemon listens there already; takes over what a dead one left.
Result<FileDescriptor> ListenAt(const std::string& path, mode_t socket_mode);

}  // namespace harmonaize

#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"
#include "src/transport/address.h"

namespace harmonaize::daemon {

/// What the kernel says of the other end of a connection.
struct LoopbackPeer {
  uid_t user = 0;
  /// Number of the control group of the process that made the socket (ControlGroups); nullopt where
  /// the kernel does not say.
  std::optional<uint64_t> control_group = std::nullopt;
};

/// Asks the kernel which user of this host has the other end of a TCP connection over loopback
/// (sock_diag(7)). TCP has no SO_PEERCRED. Thread: one.
class LoopbackPeers {
 public:
  /// Errors: kSystemError where the kernel or a sandbox has no such sockets.
  static Result<LoopbackPeers> Open();

  /// Returns whose process holds the socket that is bound to `peer` and connected to `own`; nullopt
  /// if no process holds it any more, or the kernel does not say. Waits for the kernel's answer
  /// alone, which is there when the question was sent.
  std::optional<LoopbackPeer> Find(const transport::NetworkAddress& peer,
                                   const transport::NetworkAddress& own);
  /// Returns the user that Find finds.
  std::optional<uid_t> UserOf(const transport::NetworkAddress& peer,
                              const transport::NetworkAddress& own);

 private:
  explicit LoopbackPeers(FileDescriptor socket) : socket_(std::move(socket)) {}

  bool Ask(const transport::NetworkAddress& peer, const transport::NetworkAddress& own);
  std::optional<LoopbackPeer> ReadAnswer();

  FileDescriptor socket_;
  uint32_t question_ = 0;  ///< Number of the last question, which its answer carries.
};

}  // namespace harmonaize::daemon

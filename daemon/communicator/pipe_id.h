#pragma once

#include <compare>
#include <cstdint>

#include "daemon/tenant/member.h"
#include "daemon/tenant/posted_operation.h"

namespace harmonaize::daemon {

/// Names a pipe (src/ipc/pipe_message.h) among those of a communicator, as one of its two ends sees
/// it.
struct PipeId {
  int rank = -1;  ///< The rank whose end this is.
  int peer = -1;
  uint32_t pipe = 0;

  auto operator<=>(const PipeId&) const = default;

  /// Returns the same pipe as the peer sees it.
  PipeId AtPeer() const { return {peer, rank, pipe}; }
};

/// Returns the pipe of a message.
inline PipeId PipeOf(const PostedOperation& message) {
  return {message.member->rank, message.descriptor.root,
          static_cast<uint32_t>(message.descriptor.scalar)};
}

/// Communicators of this many ranks have pipes. What leads from a process to another is one of
/// these (daemon/formation/doors.h).
inline constexpr int kRanksWithPipes = 2;

/// Most messages that one end of a pipe may have under way, sends and receives together. A program
/// that carries NCCL's connections has some hundreds, and what ends a pipe ends all of them at
/// once.
inline constexpr size_t kMostMessagesOfPipe = 1024;

}  // namespace harmonaize::daemon

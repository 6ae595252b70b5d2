#pragma once

#include <cstddef>
#include <cstdint>

#include "src/client/operation/operation.h"
#include "src/ipc/session_segment.h"

namespace harmonaize {

/// One buffer of one operation, as described to the daemon.
struct PreparedBuffer {
  BufferReference reference;
  bool is_private = false;       // the daemon does not reach it
  std::byte* staging = nullptr;  // borrowed from the pool, when set
  bool nested = false;           // in the staging of the operation's other buffer
  uint64_t bytes = 0;
};

struct PreparedOperation {
  const Operation* operation;
  size_t queue;  // among the launch's QueueUses
  PreparedBuffer send;
  PreparedBuffer receive;
  uint8_t window_flags = 0;  // OperationFlags, where private buffers go through windows
};

/// Operations of one communicator that are appended to an ordered queue: that of a host stream, to
/// which other communicators may append as well, or the communicator's own.
struct QueueUse {
  Communicator* communicator;
  HostStream* stream;
  uint64_t position = 0;
  size_t last_descriptor = 0;
  bool staged = false;  // whether some of its buffers are
  /// kWaiting: a caller of this function is about to settle it. kSettled: nothing is left to do.
  enum class State { kPosted, kWaiting, kSettled } state = State::kPosted;
};

}  // namespace harmonaize

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "src/client/operation/copy_batch.h"
#include "src/client/operation/copy_queue.h"
#include "src/client/operation/operation.h"
#include "src/ipc/session_segment.h"

namespace harmonaize {

/// One buffer of one operation, as described to the daemon.
struct PreparedBuffer {
  BufferReference reference;
  bool is_private = false;       ///< The daemon does not reach it.
  std::byte* staging = nullptr;  ///< Shared memory that stands for it, when set.
  uint64_t bytes = 0;
};

struct PreparedOperation {
  const Operation* operation;
  size_t queue;  ///< Among the launch's QueueUses.
  PreparedBuffer send;
  PreparedBuffer receive;
  uint8_t window_flags = 0;  ///< OperationFlags, where private buffers go through windows.
};

/// Operations of one communicator that are appended to an ordered queue: that of a host stream, to
/// which other communicators may append as well, or the communicator's own.
struct QueueUse {
  Communicator* communicator;
  HostStream* stream;
  std::shared_ptr<CopyQueue> copies;  ///< The queue's, if some of the operations have private data.
  std::unique_ptr<CopyBatch> batch;   ///< Their data, until the operations are posted.
  uint64_t position = 0;
  size_t last_descriptor = 0;
  /// kWaiting: a caller of this function is about to settle it. kSettled: nothing is left to do.
  enum class State { kPosted, kWaiting, kSettled } state = State::kPosted;

  /// Returns whether the call returns only when the operations are done.
  bool waited_for() const { return stream == nullptr && communicator->options().blocking; }
  /// Returns the index of the queue in the session.
  uint32_t index() const { return stream != nullptr ? stream->index() : communicator->member(); }
};

}  // namespace harmonaize

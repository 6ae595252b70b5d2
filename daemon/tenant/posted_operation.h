#pragma once

#include <cstdint>

#include "daemon/runtime/waiting_count.h"
#include "src/base/status.h"
#include "src/ipc/pipe_message.h"
#include "src/ipc/session_segment.h"
#include "src/memory/memory_view.h"

namespace harmonaize::daemon {

struct MatchedOperation;
struct Member;
class Region;
class StreamQueue;

/// One rank's part in one operation, or one message in a pipe, from the moment its descriptor was
/// read to its completion. Belongs to its session; taken from and given back to the session's pool.
struct PostedOperation {
  OperationDescriptor descriptor;  ///< The daemon's copy, which the tenant cannot change.
  Member* member = nullptr;
  StreamQueue* stream = nullptr;  ///< nullptr for a message.
  uint64_t arrived_ns = 0;

  MemoryView send;
  MemoryView receive;
  Region* send_region = nullptr;  ///< Held in use until completion, when set.
  Region* receive_region = nullptr;

  /// Why the descriptor cannot be carried out; the whole operation fails with it.
  Status invalid;
  /// Set when the outcome is known before the stream has come this far.
  Status outcome;

  /// Its number among the sends or receives of its pair of ranks, if these are on two hosts.
  uint64_t pair_number = 0;
  bool crosses_hosts = false;
  uint64_t next_report_ns = 0;  ///< When to report that its peer is late, if it crosses hosts.

  PostedOperation* next_of_pair = nullptr;  ///< Link of PairMatcher's list.
  WaitingHold waiting;                  ///< Held while it has no partner, or one on another host.
  MatchedOperation* matched = nullptr;  ///< Set once its partners are known.
  bool ready = false;                   ///< The stream has come this far.
  uint64_t ready_ns = 0;  ///< When the stream came this far; the part waits for others since then.

  /// Of a message: where its end is told, in this region, which is held in use until then.
  MessageOutcome* outcome_word = nullptr;
  Region* outcome_region = nullptr;
  uint64_t moved_bytes = 0;  ///< Of a message: bytes that were sent or received.
};

/// Returns whether the part is a message in a pipe.
inline bool IsMessage(const PostedOperation& part) {
  return (part.descriptor.flags & kPipeMessage) != 0;
}

}  // namespace harmonaize::daemon

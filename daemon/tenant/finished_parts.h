#pragma once

#include <vector>

#include "daemon/tenant/posted_operation.h"
#include "daemon/tenant/ready_parts.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

class Session;
class StreamQueue;

/// Tells tenants of parts that are completed, messages among them, and moves the parts' streams on.
/// Thread: engine.
class FinishedParts {
 public:
  /// `ready` gets the parts that become ready when their streams move on. Requires: it outlives
  /// this object.
  explicit FinishedParts(ReadyParts* ready) : ready_(ready) {}

  /// Completes a part: notes its error for the tenant, moves its stream on, takes the part back.
  void Finish(PostedOperation* part, const Status& outcome);
  /// Shows the tenants what was completed since the last call, and wakes those that sleep. Called
  /// once a round.
  void Publish();

 private:
  struct Unpublished {
    StreamQueue* queue;  ///< nullptr: only messages have ended.
    Session* session;
  };

  void FinishMessage(PostedOperation* message, const Status& outcome);

  ReadyParts* const ready_;
  std::vector<Unpublished> unpublished_;  // queues that have come further than their tenants know,
                                          // and sessions of messages that have ended
};

}  // namespace harmonaize::daemon

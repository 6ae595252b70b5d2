#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "daemon/tenant/posted_operation.h"
#include "src/base/status.h"
#include "src/ipc/session_segment.h"

namespace harmonaize::daemon {

/// One ordered queue of a tenant process. Operations of position p start when all of position p - 1
/// are done; operations of one position may run side by side.
class StreamQueue {
 public:
  /// `slot` is where the tenant reads how far the queue has come.
  explicit StreamQueue(StreamSlot* slot) : slot_(slot) {}

  /// Returns whether `position` may come next: the tenant counts positions one by one.
  bool Accepts(uint64_t position) const {
    return position == (sealed_ ? arriving_ + 1 : arriving_) && position != 0;
  }

  /// Takes in an operation whose position was accepted. Returns true if it is ready at once.
  bool Arrive(PostedOperation* operation);

  /// Counts an operation of the current position as done. Appends the operations that may start now
  /// to `ready`. Returns true for the first one since the last Publish: the caller then calls
  /// Publish and WakeReached, once for all that is done by then.
  bool Finish(std::vector<PostedOperation*>* ready);

  /// Tells the tenant how far the queue has come.
  void Publish();
  /// Wakes the tenant's threads that sleep for what has been published. Returns true if there were
  /// any, which cost a system call.
  bool WakeReached();

  /// Tells the tenant that an operation failed. Requires: Finish has not been called for it.
  void NoteFailure(Code code, uint32_t member);

  /// The last position whose operations are all done.
  uint64_t completed() const { return completed_; }
  bool idle() const { return outstanding_ == 0 && waiting_.empty(); }

  /// Starts anew at position 1, for the next owner of the slot. Requires: the queue is idle.
  void Reset();

 private:
  StreamSlot* slot_;
  bool publishes_ = false;  // Finish has asked for a Publish
  uint64_t completed_ = 0;  // our own count: the slot can be written by the tenant
  uint64_t arriving_ = 0;
  bool sealed_ = true;  // the last operation of position `arriving_` has arrived
  uint32_t errors_ = 0;
  int64_t outstanding_ = 0;  // of position completed_ + 1
  uint64_t ended_ = 0;       // operations, over all owners of the slot
  std::deque<PostedOperation*> waiting_;
};

}  // namespace harmonaize::daemon

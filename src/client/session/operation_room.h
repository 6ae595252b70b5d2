#pragma once

#include <atomic>
#include <cstdint>

#include "src/ipc/session_segment.h"

namespace harmonaize {

/// Counts the operations of a session that the daemon holds: posted, and not yet ended. The daemon
/// ends a session that posts more than the provider's limit, so room is taken before an operation
/// is posted. Thread: any.
///
/// Operations wait for each other: a posted one may end only after another thread's operation has
/// been posted, too. So takers without a window share no more than half of the limit, in the order
/// in which they come. The other half is kept for a few operations of each queue, its window.
class OperationRoom {
 public:
  /// Sets the room to `limit` operations; `retired` tells how many have ended. Called before
  /// anything else, by one thread.
  void SetUp(uint64_t limit, const StreamSlot* retired) {
    limit_ = limit < 1 ? 1 : limit;
    retired_ = retired;
  }

  /// Returns the most operations that the daemon holds.
  uint64_t limit() const { return limit_; }
  /// Returns how many operations every queue may have under way whatever the others do.
  uint64_t least_window() const {
    const uint64_t share = limit_ / 2 / kStreamSlots;
    return share < 1 ? 1 : share;
  }

  /// Takes room for `operations`, all or none, from the half that is open to all.
  bool Take(uint64_t operations) { return TakeBelow(operations, limit_ - limit_ / 2); }
  /// Takes room for `operations` of one queue, which has `under_way` already and this window.
  bool TakeInWindow(uint64_t operations, uint64_t under_way, uint64_t window) {
    return Take(operations) || (under_way + operations <= window && TakeBelow(operations, limit_));
  }
  /// Takes room for `operations` wherever there is some.
  bool TakeAny(uint64_t operations) { return TakeBelow(operations, limit_); }
  /// Gives back room for operations that are not posted after all.
  void GiveBack(uint64_t operations) { taken_.fetch_sub(operations, std::memory_order_relaxed); }

 private:
  bool TakeBelow(uint64_t operations, uint64_t most);

  uint64_t limit_ = 1;
  const StreamSlot* retired_ = nullptr;
  std::atomic<uint64_t> taken_{0};
  /// Last value read from `retired_`, whose cache line the daemon writes all the time.
  std::atomic<uint64_t> retired_seen_{0};
};

}  // namespace harmonaize

#pragma once

#include <atomic>
#include <cstdint>

#include "src/ipc/session_segment.h"

namespace harmonaize {

/// Counts the operations of a session that the daemon holds: posted, and not yet ended. The daemon
/// cuts a session off that posts more than the provider's limit, so room is taken before an
/// operation is posted. Thread safe.
///
/// Operations wait for each other: what is posted may end only after another thread's operation has
/// been posted, too. So whoever comes first gets no more than half of the limit. The other half is
/// kept for a few operations of each queue, its window.
class OperationRoom {
 public:
  /// There is room for `limit` operations; `retired` tells how many have ended. Before anything
  /// else, by one thread.
  void SetUp(uint64_t limit, const StreamSlot* retired) {
    limit_ = limit < 1 ? 1 : limit;
    retired_ = retired;
  }

  /// The operations that the daemon holds at most.
  uint64_t limit() const { return limit_; }
  /// The operations that every queue may have under way whatever the others do.
  uint64_t least_window() const {
    const uint64_t share = limit_ / 2 / kStreamSlots;
    return share < 1 ? 1 : share;
  }

  /// Takes room for `operations`, all or none, from the half for whoever comes first.
  bool Take(uint64_t operations) { return TakeBelow(operations, limit_ - limit_ / 2); }
  /// Takes room for `operations` of one queue, which has `under_way` already and this window.
  bool TakeInWindow(uint64_t operations, uint64_t under_way, uint64_t window) {
    return Take(operations) || (under_way + operations <= window && TakeBelow(operations, limit_));
  }
  /// Takes room for `operations` wherever there is some.
  bool TakeAny(uint64_t operations) { return TakeBelow(operations, limit_); }
  /// Gives back room for what is not posted after all.
  void GiveBack(uint64_t operations) { taken_.fetch_sub(operations, std::memory_order_relaxed); }

 private:
  bool TakeBelow(uint64_t operations, uint64_t most);

  uint64_t limit_ = 1;
  const StreamSlot* retired_ = nullptr;
  std::atomic<uint64_t> taken_{0};
  /// What `retired_` said last: the word itself is a cache line that the daemon writes all the
  /// time.
  std::atomic<uint64_t> retired_seen_{0};
};

}  // namespace harmonaize

#include "src/client/session/operation_room.h"

namespace harmonaize {

// Relaxed: only the counts matter here. The queues tell that operations have ended.
bool OperationRoom::TakeBelow(uint64_t operations, uint64_t most) {
  uint64_t taken = taken_.load(std::memory_order_relaxed);
  uint64_t retired = retired_seen_.load(std::memory_order_relaxed);
  while (true) {
    if (taken + operations > retired + most) {
      retired = retired_->completed.load(std::memory_order_relaxed);
      // Operations that have ended were taken before, which `taken` may not show yet.
      taken = taken_.load(std::memory_order_relaxed);
      if (taken + operations > retired + most) return false;
      retired_seen_.store(retired, std::memory_order_relaxed);
    }
    if (taken_.compare_exchange_weak(taken, taken + operations, std::memory_order_relaxed)) {
      return true;
    }
  }
}

}  // namespace harmonaize

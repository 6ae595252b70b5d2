// Posting of a group for which there is no room as a whole.

#include <algorithm>
#include <mutex>

#include "src/client/session/session.h"

namespace harmonaize {

// Requires: submit_mutex_ is held.
uint64_t Session::UnderWay(uint32_t stream) const {
  return posted_[stream] - segment_->streams[stream].ended.load(std::memory_order_acquire);
}

uint64_t Session::Window(const QueueShare& queue) const {
  return std::max(room_.least_window(), queue.lanes);
}

bool Session::TakeRoomInWindows(std::span<const QueueShare> queues) {
  const std::lock_guard lock(submit_mutex_);
  uint64_t all = 0;
  for (const QueueShare& queue : queues) {
    all += queue.operations;
    if (UnderWay(queue.stream) + queue.operations > Window(queue)) return false;
  }
  return room_.TakeAny(all);
}

// Takes room for as many of the first descriptors as possible. Requires: submit_mutex_ is held.
size_t Session::TakeRoomForSome(std::span<const OperationDescriptor> descriptors,
                                std::span<const QueueShare> queues) {
  std::vector<uint64_t> taken(queues.size(), 0);
  size_t some = 0;
  for (; some < descriptors.size(); ++some) {
    const uint32_t stream = descriptors[some].stream;
    const auto queue = std::find_if(queues.begin(), queues.end(), [stream](const QueueShare& one) {
      return one.stream == stream;
    });
    uint64_t& own = taken[static_cast<size_t>(queue - queues.begin())];
    if (!room_.TakeInWindow(1, UnderWay(stream) + own, Window(*queue))) break;
    ++own;
  }
  return some;
}

// No thread waits for room under submit_mutex_: the operations of others may be what makes room.
Status Session::SubmitInTurns(std::span<const OperationDescriptor> descriptors,
                              std::span<const QueueShare> queues) {
  while (!descriptors.empty()) {
    // Read before the attempt to take room: an operation that ends afterwards ends the wait.
    const uint64_t retired = segment_->retired.completed.load(std::memory_order_acquire);
    size_t some = 0;
    {
      const std::lock_guard lock(submit_mutex_);
      if (lost()) return Lost(Status::Ok());
      some = TakeRoomForSome(descriptors, queues);
      if (some > 0) HZ_RETURN_IF_ERROR(Write(descriptors.first(some)));
    }
    descriptors = descriptors.subspan(some);
    if (some > 0) continue;
    HZ_RETURN_IF_ERROR(
        WaitForPosition(&segment_->retired, retired + 1, [] { return Status::Ok(); }));
  }
  return Status::Ok();
}

}  // namespace harmonaize

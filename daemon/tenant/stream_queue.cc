#include "daemon/tenant/stream_queue.h"

#include <utility>

#include "src/base/futex.h"

namespace harmonaize::daemon {

bool StreamQueue::Arrive(PostedOperation* operation) {
  const OperationDescriptor& descriptor = operation->descriptor;
  arriving_ = descriptor.position;
  sealed_ = (descriptor.flags & kLastOfPosition) != 0;
  if (arriving_ == completed_ + 1) {
    ++outstanding_;
    return true;
  }
  waiting_.push_back(operation);
  return false;
}

bool StreamQueue::Finish(std::vector<PostedOperation*>* ready) {
  --outstanding_;
  ++ended_;
  const uint64_t current = completed_ + 1;
  const bool all_arrived = arriving_ > current || sealed_;
  if (outstanding_ > 0 || !all_arrived) return !std::exchange(publishes_, true);
  completed_ = current;
  while (!waiting_.empty() && waiting_.front()->descriptor.position == completed_ + 1) {
    ++outstanding_;
    ready->push_back(waiting_.front());
    waiting_.pop_front();
  }
  return !std::exchange(publishes_, true);
}

void StreamQueue::NoteFailure(Code code, uint32_t member) {
  slot_->error_code.store(static_cast<uint32_t>(code), std::memory_order_relaxed);
  slot_->error_member.store(member, std::memory_order_relaxed);
  // The store of `completed` that follows publishes these; release for a thread that polls the
  // count alone.
  slot_->error_count.store(++errors_, std::memory_order_release);
}

void StreamQueue::Publish() {
  publishes_ = false;
  slot_->ended.store(ended_, std::memory_order_relaxed);
  // Publishes the results that the executor wrote as well. Sequentially consistent: see
  // MarkAwaited.
  slot_->completed.store(completed_, std::memory_order_seq_cst);
}

bool StreamQueue::WakeReached() {
  if (!TakeReachedMark(slot_, completed_)) return false;
  FutexWakeShared(&slot_->awaited, kMostWoken);
  return true;
}

void StreamQueue::Reset() {
  completed_ = 0;
  arriving_ = 0;
  sealed_ = true;
  slot_->completed.store(0, std::memory_order_release);
}

}  // namespace harmonaize::daemon

#include "src/client/operation/copy_batch.h"

#include <algorithm>

#include "src/client/operation/communicator.h"

namespace harmonaize {

CopyBatch::CopyBatch(Communicator* communicator, uint32_t stream)
    : communicator_(communicator),
      queue_(&communicator->session().stream_slot(stream)),
      own_queue_(stream == communicator->member()),
      failures_before_(queue_->error_count.load(std::memory_order_acquire)) {}

bool CopyBatch::PositionReached() const {
  return queue_->completed.load(std::memory_order_acquire) >= position_;
}

// The communicator's own queue has one launch at a time, so a failure is this launch's. On a host
// stream it may be any other's. There results are always copied out: those of a failed operation
// are of no use, but the buffer's contents are no longer defined either.
bool CopyBatch::Succeeded() const {
  return !own_queue_ || queue_->error_count.load(std::memory_order_acquire) == failures_before_;
}

bool CopyBatch::Step() {
  if (!windows_.empty()) {
    WindowCopy& first = windows_.front();
    if (!first.ended()) return first.Step();
    first.Finish(Succeeded());
    windows_.pop_front();
    return true;
  }
  if (staged_.empty() || !PositionReached()) return false;
  if (Succeeded()) staged_.CopyOut();
  staged_.GiveBack();
  staged_bytes_ = 0;
  return true;
}

bool CopyBatch::CanStep() const {
  if (!windows_.empty()) return windows_.front().ended() || windows_.front().CanStep();
  return !staged_.empty() && PositionReached();
}

Session::AwaitedSlices CopyBatch::Awaited() const {
  if (!windows_.empty()) return windows_.front().Awaited();
  return {.queue = queue_, .position = position_};
}

bool CopyBatch::WritesTo(const void* address, uint64_t bytes) const {
  return staged_.WritesTo(address, bytes) ||
         std::any_of(windows_.begin(), windows_.end(), [address, bytes](const WindowCopy& window) {
           return window.WritesTo(address, bytes);
         });
}

}  // namespace harmonaize

#include "src/client/operation/copy_batch.h"

#include <algorithm>

#include "src/client/operation/communicator.h"

namespace harmonaize {

CopyBatch::CopyBatch(Communicator* communicator, uint32_t stream)
    : communicator_(communicator),
      queue_(&communicator->session().stream_slot(stream)),
      own_queue_(stream == communicator->member()),
      failures_before_(queue_->error_count.load(std::memory_order_acquire)),
      sends_(&communicator->lane(kSendLane), &communicator->lane(kFarSendLane)),
      receives_(&communicator->lane(kReceiveLane), &communicator->lane(kFarReceiveLane)) {}

void CopyBatch::AddWindow(const Operation& operation, const OperationDescriptor& descriptor) {
  switch (operation.collective) {
    case Collective::kSend: return sends_.Add(operation, descriptor);
    case Collective::kReceive: return receives_.Add(operation, descriptor);
    default: collectives_.emplace_back(operation, descriptor);
  }
}

// Sequentially consistent, as ExpectNews requires.
bool CopyBatch::PositionReached() const {
  return queue_->completed.load(std::memory_order_seq_cst) >= position_;
}

// The communicator's own queue has one launch at a time, so a failure is this launch's. On a host
// stream it may be any other's. There results are always copied out: those of a failed operation
// are of no use, but the buffer's contents are no longer defined either.
bool CopyBatch::Succeeded() const {
  return !own_queue_ || queue_->error_count.load(std::memory_order_acquire) == failures_before_;
}

bool CopyBatch::Step() {
  const bool collective = StepCollective();
  if (StepPairs() || collective) return true;
  // All windows have ended as well.
  if (staged_.empty() || !PositionReached()) return false;
  if (Succeeded()) staged_.CopyOut();
  staged_.GiveBack();
  return true;
}

bool CopyBatch::StepCollective() {
  if (collectives_.empty()) return false;
  WindowCopy& first = collectives_.front();
  if (!first.ended()) return first.Step();
  first.Finish(Succeeded());
  collectives_.pop_front();
  return true;
}

// Those that are left when the position is reached have failed before their turn came.
bool CopyBatch::StepPairs() {
  if (!has_pairs()) return false;
  const bool reached = PositionReached();
  const bool sent = sends_.Step(Succeeded());
  if (receives_.Step(Succeeded()) || sent) return true;
  if (!reached) return false;
  sends_.Finish(Succeeded());
  receives_.Finish(Succeeded());
  return true;
}

bool CopyBatch::CanStep() const {
  if (!collectives_.empty() && (collectives_.front().ended() || collectives_.front().CanStep())) {
    return true;
  }
  return sends_.CanStep() || receives_.CanStep() || PositionReached();
}

std::optional<Session::AwaitedSlices> CopyBatch::Awaited() const {
  if (has_pairs()) return std::nullopt;
  if (!collectives_.empty()) return collectives_.front().Awaited();
  return Session::AwaitedSlices{.queue = queue_, .position = position_};
}

bool CopyBatch::WritesTo(const void* address, uint64_t bytes) {
  return staged_.WritesTo(address, bytes) || receives_.WritesTo(address, bytes) ||
         std::any_of(
             collectives_.begin(), collectives_.end(),
             [address, bytes](const WindowCopy& copy) { return copy.WritesTo(address, bytes); });
}

}  // namespace harmonaize

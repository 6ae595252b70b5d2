#include "daemon/communicator/sliced_runner.h"

#include <algorithm>
#include <utility>

#include "daemon/runtime/fed_executions.h"
#include "src/base/clock.h"
#include "src/executor/host/work_engine.h"
#include "src/ipc/window_layout.h"

namespace harmonaize::daemon {
namespace {

/// Slots of a window: one is filled, one or two are carried, and one is drained.
constexpr uint32_t kSlots = 4;

/// A slot has an eighth of an operation, so that filling and draining overlap with carrying, but no
/// less than this many bytes, for which waking a rank would take longer than copying,
constexpr uint64_t kLeastSlotBytes = uint64_t{64} << 10;
/// and no more than this many, so that a rank's window stays in its processor's cache.
constexpr uint64_t kMostSlotBytes = uint64_t{256} << 10;
constexpr uint64_t kSlotsOfOperation = 8;

/// Bytes that the execution keeps for each rank: of its two buffers, and of their views and
/// strides.
constexpr int64_t kRankBytes = 384;

}  // namespace

Status SlicedRunner::Start(MatchedOperation* operation, const Schedule& plan,
                           const Operands& operands) {
  if (execution_ == nullptr) {
    HZ_RETURN_IF_ERROR(
        owner_->Pay(static_cast<int64_t>(sizeof(SlicedExecution) + kSlots * sizeof(Execution)) +
                    kRankBytes * ranks_));
    execution_ = std::make_unique<SlicedExecution>(services_.work);
  }
  SlicedBinding binding;
  static_cast<Operands&>(binding) = operands;
  binding.program = &plan.programs.front();
  binding.slice_elements = SliceElements(*operation);
  binding.slots = kSlots;
  binding.feed = &operation->feed;
  services_.sliced->Expect(execution_.get(), this, operation);
  operation->started_ns = MonotonicNanoseconds();
  HZ_RETURN_IF_ERROR(execution_->Start(binding));
  operation_ = operation;
  // The engine comes by while ranks are to be reported that do not get on.
  operation->waiting = WaitingHold(*services_.waiting);
  services_.sliced->Watch(execution_.get());
  return Status::Ok();
}

// All ranks cut alike, so the rank with the largest slot decides.
uint64_t SlicedRunner::SliceElements(const MatchedOperation& operation) const {
  const OperationDescriptor& descriptor = operation.parts.front()->descriptor;
  uint64_t blocks = 1;
  for (const PostedOperation* part : operation.parts) {
    const BufferBlocks units =
        BlocksOf(descriptor.collective, ranks_, part->member->rank, descriptor.root);
    blocks =
        std::max(blocks, LayoutOf(units, part->member->rank, 1, part->descriptor.flags).blocks);
  }
  const uint64_t element = DataTypeSize(descriptor.type);
  const uint64_t share = descriptor.count / kSlotsOfOperation * element * blocks;
  const uint64_t slot = std::clamp(share, kLeastSlotBytes, kMostSlotBytes);
  const uint64_t elements = slot / blocks / element;
  const uint64_t line = 64 / element;
  const uint64_t least = descriptor.count / (kAllSlices - 1) + 1;  // more slices cannot be counted
  const uint64_t even = elements > line ? elements / line * line : elements;
  return std::min(std::max(even, least), descriptor.count);
}

void SlicedRunner::Cancel(const Status& why) {
  if (operation_ != nullptr) execution_->Cancel(why);
}

void SlicedRunner::OnDone(FedExecution*) {
  MatchedOperation* const operation = std::exchange(operation_, nullptr);
  operation->waiting.Reset();
  owner_->OnLocalDone(operation, execution_->status());
}

void SlicedRunner::OnException(FedExecution*, const Status& exception) {
  owner_->GiveUp(exception);
}

}  // namespace harmonaize::daemon

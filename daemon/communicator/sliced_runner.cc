#include "daemon/communicator/sliced_runner.h"

#include <algorithm>
#include <utility>

#include "daemon/runtime/fed_executions.h"
#include "daemon/tenant/member.h"
#include "daemon/tenant/session.h"
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

bool SlicedRunner::has_collective() const {
  return std::any_of(operations_.begin(), operations_.end(), [](const MatchedOperation* operation) {
    return !IsPointToPoint(operation->parts.front()->descriptor.collective);
  });
}

Result<std::unique_ptr<SlicedExecution>> SlicedRunner::TakeExecution() {
  if (!idle_.empty()) {
    std::unique_ptr<SlicedExecution> execution = std::move(idle_.back());
    idle_.pop_back();
    return execution;
  }
  HZ_RETURN_IF_ERROR(
      owner_->Pay(static_cast<int64_t>(sizeof(SlicedExecution) + kSlots * sizeof(Execution)) +
                  kRankBytes * std::max(ranks_, 2)));
  return std::make_unique<SlicedExecution>(services_.work);
}

Status SlicedRunner::Start(MatchedOperation* operation, const Schedule& plan,
                           const Operands& operands) {
  HZ_ASSIGN_OR_RETURN(operation->local.sliced, TakeExecution());
  SlicedExecution* const execution = operation->local.sliced.get();
  SlicedBinding binding;
  static_cast<Operands&>(binding) = operands;
  binding.program = &plan.programs.front();
  binding.slice_elements = SliceElements(*operation, operands);
  binding.slots = kSlots;
  binding.feed = &operation->feed;
  operations_.push_back(operation);
  services_.sliced->Expect(execution, this, operation);
  operation->started_ns = MonotonicNanoseconds();
  const Status started = execution->Start(binding);
  if (!started.ok()) {
    Remove(operation);
    return started;
  }
  // The engine comes by while ranks are to be reported that do not get on.
  operation->waiting = WaitingHold(*services_.waiting);
  services_.sliced->Watch(execution);
  return Status::Ok();
}

void SlicedRunner::Remove(MatchedOperation* operation) {
  std::erase(operations_, operation);
  idle_.push_back(std::move(operation->local.sliced));
}

// All ranks cut alike, so the rank with the largest slot decides.
uint64_t SlicedRunner::SliceElements(const MatchedOperation& operation,
                                     const Operands& operands) const {
  const OperationDescriptor& descriptor = operation.parts.front()->descriptor;
  uint64_t blocks = 1;
  for (const PostedOperation* part : operation.parts) {
    const BufferBlocks units =
        BlocksOf(descriptor.collective, ranks_, part->member->rank, descriptor.root);
    blocks =
        std::max(blocks, LayoutOf(units, part->member->rank, 1, part->descriptor.flags).blocks);
  }
  const uint64_t element = DataTypeSize(operands.type);
  const uint64_t share = operands.count / kSlotsOfOperation * element * blocks;
  const uint64_t slot = std::clamp(share, kLeastSlotBytes, kMostSlotBytes);
  const uint64_t elements = slot / blocks / element;
  const uint64_t line = 64 / element;
  const uint64_t least = operands.count / (kAllSlices - 1) + 1;  // more slices cannot be counted
  const uint64_t even = elements > line ? elements / line * line : elements;
  return std::min(std::max(even, least), operands.count);
}

void SlicedRunner::CancelAll(const Status& why) {
  for (const MatchedOperation* operation : operations_) operation->local.sliced->Cancel(why);
}

void SlicedRunner::OnDone(FedExecution* execution) {
  auto* const operation = static_cast<MatchedOperation*>(execution->cookie);
  const Status outcome = operation->local.sliced->status();
  operation->waiting.Reset();
  Remove(operation);
  owner_->OnLocalDone(operation, outcome);
}

void SlicedRunner::OnException(FedExecution*, const Status& exception) {
  owner_->GiveUp(exception);
}

}  // namespace harmonaize::daemon

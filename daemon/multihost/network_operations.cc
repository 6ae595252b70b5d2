#include "daemon/multihost/network_operations.h"

#include <algorithm>
#include <utility>

#include "daemon/communicator/communicator.h"
#include "daemon/plans/host_plan.h"
#include "daemon/runtime/guarded.h"
#include "daemon/tenant/rank_feed.h"
#include "src/base/clock.h"

namespace harmonaize::daemon {
namespace {

/// Factor by which an operation may keep more slices under way while jobs share connections: a plan
/// is made for an empty network, and a job that has nothing to send when its turn comes gets less
/// than its share.
constexpr int kSlicesWhenShared = 4;

/// Most bytes that these slices may hold together: no more than caches do. Without this limit two
/// hosts got through half as much.
constexpr uint64_t kSharedSliceBytes = uint64_t{512} << 10;

int SlicesWhenShared(const SliceCut& slice) {
  const auto fit = static_cast<int>(kSharedSliceBytes / std::max<uint64_t>(slice.bytes, 1));
  return std::clamp(fit, slice.at_once, slice.at_once * kSlicesWhenShared);
}

/// Most operations that end before the engine looks at other tenants' work.
constexpr int kEndedAtOnce = 64;

MatchedOperation* OperationOf(const NetworkExecution& execution) {
  return static_cast<MatchedOperation*>(execution.cookie());
}

}  // namespace

Status NetworkOperations::Start(MatchedOperation* operation, NetworkBinding binding) {
  binding.program = &operation->network.plan->program();
  binding.inputs = operation->inputs;
  binding.outputs = operation->outputs;
  binding.scalars = operation->scalars;
  binding.operation = operation->network.number;
  binding.tenant = operation->communicator->tenant().identity.across_hosts;
  binding.weight = static_cast<float>(operation->communicator->tenant().weight);
  binding.done_list = &done_;
  binding.cookie = operation;
  const SliceCut& slice = operation->network.plan->slice();
  binding.slice_elements = std::max<uint64_t>(1, slice.bytes / DataTypeSize(binding.type));
  operation->network.execution = operation->network.plan->Take();
  operation->network.started_ns = MonotonicNanoseconds();
  operation->network.job = operation->communicator->job();
  const bool shared = activity_.Start(operation->network.job, operation->network.started_ns);
  binding.slices_at_once = shared ? SlicesWhenShared(slice) : slice.at_once;
  const Status started = operation->network.execution->Start(binding);
  if (!started.ok()) {
    activity_.End(operation->network.job, operation->network.started_ns);
    operation->network.plan->GiveBack(std::exchange(operation->network.execution, nullptr));
    return started;
  }
  ++under_way_;
  NetworkExecution* const execution = operation->network.execution;
  if (binding.feed != nullptr && !execution->done()) feeding_.PushBack(execution);
  return Status::Ok();
}

bool NetworkOperations::Run() {
  const bool fed = FeedSome();
  return EndSome() || fed;
}

// An execution that is done moves itself to the other list.
bool NetworkOperations::FeedSome() {
  bool progress = false;
  NetworkExecution* next = nullptr;
  for (NetworkExecution* execution = feeding_.Front(); execution != nullptr; execution = next) {
    next = feeding_.After(execution);
    bool failed = false;
    Guarded([&] { progress |= execution->Feed(); },
            [&](const Status& exception) {
              failed = true;
              OperationOf(*execution)->communicator->GiveUp(exception);
            });
    if (failed) return true;  // `next` may have been canceled along
  }
  return progress;
}

bool NetworkOperations::EndSome() {
  if (done_.empty()) return false;
  // The end of an operation may begin and end others.
  for (int ended = 0; ended < kEndedAtOnce; ++ended) {
    NetworkExecution* const execution = done_.PopFront();
    if (execution == nullptr) break;
    --under_way_;
    End(OperationOf(*execution));
  }
  return true;
}

void NetworkOperations::End(MatchedOperation* operation) {
  activity_.End(operation->network.job, MonotonicNanoseconds());
  Communicator* const communicator = operation->communicator;
  Guarded([&] { communicator->other_hosts()->OnNetworkDone(operation); },
          [&](const Status& exception) { communicator->GiveUp(exception); });
}

bool NetworkOperations::AnyToDo() const {
  if (!done_.empty()) return true;
  for (const NetworkExecution* execution = feeding_.Front(); execution != nullptr;
       execution = feeding_.After(execution)) {
    if (execution->CanFeed()) return true;
  }
  return false;
}

}  // namespace harmonaize::daemon

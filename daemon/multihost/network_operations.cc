#include "daemon/multihost/network_operations.h"

#include <algorithm>
#include <utility>

#include "daemon/communicator/communicator.h"
#include "daemon/plans/host_plan.h"
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

int SlicesWhenShared(uint64_t slice_bytes, int at_once) {
  const auto fit = static_cast<int>(kSharedSliceBytes / slice_bytes);
  return std::clamp(fit, at_once, at_once * kSlicesWhenShared);
}

MatchedOperation* OperationOf(const FedExecution& execution) {
  return static_cast<MatchedOperation*>(execution.cookie);
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
  operation->communicator->SetWorkTerms(operation->parts.front()->descriptor, &binding);
  const HostPlan& plan = *operation->network.plan;
  binding.wire = WireFormatFor(plan.wire(), binding.type, binding.op);
  const uint64_t slice_bytes = plan.SliceBytes(binding.wire);
  binding.slice_elements = std::max<uint64_t>(1, slice_bytes / DataTypeSize(binding.type));
  operation->network.execution = operation->network.plan->Take();
  operation->started_ns = MonotonicNanoseconds();
  operation->network.job = operation->communicator->gang();
  const bool shared = activity_.Start(operation->network.job, operation->started_ns);
  const int at_once = plan.slice().at_once;
  binding.slices_at_once = shared ? SlicesWhenShared(slice_bytes, at_once) : at_once;
  // As many slices are filled or drained meanwhile.
  binding.slots = 2 * static_cast<uint32_t>(binding.slices_at_once);
  executions_->Expect(operation->network.execution, this, operation);
  const Status started = operation->network.execution->Start(binding);
  if (!started.ok()) {
    activity_.End(operation->network.job, operation->started_ns);
    operation->network.plan->GiveBack(std::exchange(operation->network.execution, nullptr));
    return started;
  }
  ++under_way_;
  if (binding.feed != nullptr) executions_->Watch(operation->network.execution);
  return Status::Ok();
}

void NetworkOperations::BeginMessages(uint32_t job) {
  ++with_messages_;
  activity_.Start(job, MonotonicNanoseconds());
}

void NetworkOperations::EndMessages(uint32_t job) {
  --with_messages_;
  activity_.End(job, MonotonicNanoseconds());
}

void NetworkOperations::OnDone(FedExecution* execution) {
  --under_way_;
  MatchedOperation* const operation = OperationOf(*execution);
  activity_.End(operation->network.job, MonotonicNanoseconds());
  operation->communicator->other_hosts()->OnNetworkDone(operation);
}

void NetworkOperations::OnException(FedExecution* execution, const Status& exception) {
  OperationOf(*execution)->communicator->GiveUp(exception);
}

}  // namespace harmonaize::daemon

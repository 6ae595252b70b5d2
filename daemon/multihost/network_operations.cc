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

}  // namespace

Status NetworkOperations::Start(MatchedOperation* operation, NetworkBinding binding) {
  // First what may throw: what has been started must be known here.
  if (under_way_.size() == under_way_.capacity()) {
    under_way_.reserve(std::max<size_t>(8, 2 * under_way_.size()));
  }
  binding.program = &operation->network.plan->program();
  binding.inputs = operation->inputs;
  binding.outputs = operation->outputs;
  binding.scalars = operation->scalars;
  binding.operation = operation->network.number;
  binding.tenant = operation->communicator->tenant().identity.across_hosts;
  binding.weight = static_cast<float>(operation->communicator->tenant().weight);
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
  under_way_.push_back(operation);
  return Status::Ok();
}

bool NetworkOperations::Run() {
  bool progress = false;
  for (MatchedOperation* operation : under_way_) Feed(operation, &progress);
  // Goes by index, since the end of an operation may begin and end others.
  for (size_t i = 0; i < under_way_.size();) {
    MatchedOperation* const operation = under_way_[i];
    if (!operation->network.execution->done()) {
      ++i;
      continue;
    }
    under_way_[i] = under_way_.back();
    under_way_.pop_back();
    End(operation);
    progress = true;
  }
  return progress;
}

void NetworkOperations::Feed(MatchedOperation* operation, bool* progress) {
  Guarded(
      [&] {
        *progress |= operation->network.plan->port().DeliverFailures();
        *progress |= operation->network.execution->Feed();
      },
      [&](const Status& exception) { operation->communicator->GiveUp(exception); });
}

void NetworkOperations::End(MatchedOperation* operation) {
  activity_.End(operation->network.job, MonotonicNanoseconds());
  Communicator* const communicator = operation->communicator;
  Guarded([&] { communicator->other_hosts()->OnNetworkDone(operation); },
          [&](const Status& exception) { communicator->GiveUp(exception); });
}

bool NetworkOperations::CanFeed() const {
  return std::any_of(under_way_.begin(), under_way_.end(), [](const MatchedOperation* operation) {
    return operation->network.execution->CanFeed();
  });
}

}  // namespace harmonaize::daemon

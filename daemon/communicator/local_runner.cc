#include "daemon/communicator/local_runner.h"

#include <algorithm>
#include <utility>

#include "daemon/host/host_tuning.h"
#include "daemon/runtime/event_loop.h"
#include "daemon/runtime/guarded.h"
#include "daemon/tenant/region.h"
#include "src/base/clock.h"
#include "src/executor/host/work_engine.h"

namespace harmonaize::daemon {
namespace {

/// Number of collectives in a row of which the first two are timed, for CheckPrediction. Reading
/// the clock and predicting take a tenth of a microsecond, a twentieth of the smallest operations.
constexpr uint64_t kCollectivesPerCheck = 64;

/// Returns whether a rank has its result where its data was.
bool IsInPlace(const PostedOperation& part) {
  if (HasWindows(part)) return (part.descriptor.flags & kOneWindow) != 0;
  return part.send.SamePlace(part.receive);
}

bool IsInPlace(const MatchedOperation& operation) {
  return std::any_of(operation.parts.begin(), operation.parts.end(),
                     [](const PostedOperation* part) { return IsInPlace(*part); });
}

/// Returns the node on which all registered buffers lie; -1 if they are on several nodes, or on
/// unknown ones.
int NodeOf(const MatchedOperation& operation) {
  int node = -1;
  for (const PostedOperation* part : operation.parts) {
    const std::pair<const MemoryView&, const Region*> buffers[] = {
        {part->send, part->send_region}, {part->receive, part->receive_region}};
    for (const auto& [buffer, region] : buffers) {
      if (!buffer.exists()) continue;  // not used
      if (region->node() < 0) return -1;
      if (node >= 0 && node != region->node()) return -1;
      node = region->node();
    }
  }
  return node;
}

}  // namespace

LocalRunner::LocalRunner(const CommunicatorServices& services, LocalOwner* owner,
                         const Tenant* tenant, int ranks)
    : services_(services),
      owner_(owner),
      tenant_(tenant),
      ranks_(ranks),
      plans_(std::make_shared<OneHostPlans>(
          ranks, OneHostPlans::Means{
                     .background = services.background,
                     .tenant = tenant->identity.number,
                     .post = [loop = services.loop](
                                 std::function<void()> call) { loop->Post(std::move(call)); },
                     .pay = [owner](int64_t bytes) { return owner->Pay(bytes); }})),
      sliced_(services_, owner, ranks) {}

bool LocalRunner::HasPlan(const MatchedOperation& operation) const {
  const OperationDescriptor& descriptor = operation.parts.front()->descriptor;
  return !plans_->made_in_background() || descriptor.count == 0 ||
         plans_->IsMade(descriptor.collective, descriptor.root, IsInPlace(operation));
}

void LocalRunner::MakePlan(const MatchedOperation& operation,
                           std::function<void(const Status&)> made) {
  const OperationDescriptor& descriptor = operation.parts.front()->descriptor;
  const bool in_place = IsInPlace(operation);
  if (plans_->IsBeingMade(descriptor.collective, descriptor.root, in_place)) return;
  plans_->With(
      descriptor.collective, descriptor.root, in_place,
      [made = std::move(made)](const Result<const Schedule*>& plan) { made(plan.status()); });
}

bool LocalRunner::HasTurn(const MatchedOperation& operation) const {
  return !HasWindows(operation) || !sliced_.has_collective();
}

Status LocalRunner::Start(MatchedOperation* operation) {
  if (operation->parts.front()->descriptor.count == 0) {
    owner_->OnLocalDone(operation, Status::Ok());
    return Status::Ok();
  }
  HZ_ASSIGN_OR_RETURN(const Schedule* const plan, PlanOf(*operation));
  const Operands operands = GatherOperands(operation);
  operation->feed.Assign(operation->parts);
  if (!operation->feed.empty())
    return sliced_.Start(operation, *plan, OperandsInSlices(*operation, operands));
  HZ_RETURN_IF_ERROR(Bind(operation, *plan, operands));
  running_.Add(operation);
  services_.work->Start(&operation->local.execution);
  return Status::Ok();
}

void LocalRunner::CancelAll(const Status& why) {
  for (MatchedOperation* operation : running_)
    services_.work->Cancel(&operation->local.execution, why);
  sliced_.CancelAll(why);
}

// Counts what a pair sends in bytes: see SliceProgress.
Operands LocalRunner::OperandsInSlices(const MatchedOperation& operation,
                                       const Operands& operands) {
  Operands sliced = operands;
  if (IsPointToPoint(operation.parts.front()->descriptor.collective)) {
    sliced.count *= DataTypeSize(sliced.type);
    sliced.type = DataType::kInt8;
  }
  return sliced;
}

// Requires: HasPlan.
Result<const Schedule*> LocalRunner::PlanOf(const MatchedOperation& operation) {
  const OperationDescriptor& descriptor = operation.parts.front()->descriptor;
  const Schedule* plan = nullptr;
  Status status;
  plans_->With(descriptor.collective, descriptor.root, IsInPlace(operation),
               [&](const Result<const Schedule*>& made) {
                 if (made.ok()) plan = *made;
                 status = made.status();
               });
  HZ_RETURN_IF_ERROR(status);
  return plan;
}

Operands LocalRunner::GatherOperands(MatchedOperation* operation) const {
  operation->inputs.clear();
  operation->outputs.clear();
  operation->scalars.clear();
  for (const PostedOperation* part : operation->parts) {
    operation->inputs.push_back(part->send);
    operation->outputs.push_back(part->receive);
    operation->scalars.push_back(part->descriptor.scalar);
  }
  const OperationDescriptor& descriptor = operation->parts.front()->descriptor;
  Operands operands;
  operands.type = descriptor.type;
  operands.op = descriptor.op;
  operands.count = descriptor.count;
  operands.inputs = operation->inputs;
  operands.outputs = operation->outputs;
  operands.scalars = operation->scalars;
  operands.divisor = static_cast<uint64_t>(ranks_);
  operands.tenant = tenant_->identity.number;
  operands.weight = static_cast<float>(tenant_->weight);
  owner_->SetWorkTerms(descriptor, &operands);
  return operands;
}

Status LocalRunner::Bind(MatchedOperation* operation, const Schedule& plan,
                         const Operands& operands) {
  Binding binding;
  static_cast<Operands&>(binding) = operands;
  binding.program = &plan.programs.front();
  binding.pieces = plan.pieces;
  binding.helpable = true;
  binding.whole = true;
  binding.shared = services_.work->shared();
  binding.node = NodeOf(*operation);
  operation->local.runner = this;
  operation->local.execution.cookie = operation;
  operation->local.execution.on_finished = &OnExecuted;
  return operation->local.execution.Bind(binding, services_.work->machine());
}

void LocalRunner::OnExecuted(Execution* execution) {
  auto* const operation = static_cast<MatchedOperation*>(execution->cookie);
  LocalRunner* const self = operation->local.runner;
  Guarded([&] { self->End(operation, execution->status()); },
          [&](const Status& exception) { self->owner_->GiveUp(exception); });
}

void LocalRunner::End(MatchedOperation* operation, const Status& outcome) {
  running_.Remove(operation);
  const bool checked = operation->sequence % kCollectivesPerCheck < 2;
  if (checked && outcome.ok()) CheckPrediction(*operation);
  owner_->OnLocalDone(operation, outcome);
}

// The upper bound of the second of two collectives in a row begins at the end of the first.
void LocalRunner::CheckPrediction(const MatchedOperation& operation) {
  const OperationDescriptor& descriptor = operation.parts.front()->descriptor;
  if (IsPointToPoint(descriptor.collective)) return;
  const uint64_t now = MonotonicNanoseconds();
  if (operation.sequence % kCollectivesPerCheck == 0) {
    checked_ns_ = now;
    return;
  }
  if (checked_ns_ == 0 || operation.first_arrival_ns < checked_ns_) return;
  uint64_t all_ready = operation.first_arrival_ns;
  for (const PostedOperation* part : operation.parts) {
    all_ready = std::max(all_ready, part->ready_ns);
  }
  services_.tuning->CheckPrediction(
      {.collective = descriptor.collective,
       .ranks = ranks_,
       .block_bytes = descriptor.count * DataTypeSize(descriptor.type)},
      static_cast<double>(now - all_ready) * 1e-9, static_cast<double>(now - checked_ns_) * 1e-9,
      services_.work->machine());
}

}  // namespace harmonaize::daemon

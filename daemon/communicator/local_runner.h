#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/communicator/communicator_services.h"
#include "daemon/communicator/local_owner.h"
#include "daemon/communicator/matched_operation.h"
#include "daemon/communicator/one_host_plans.h"
#include "daemon/communicator/operation_set.h"
#include "daemon/communicator/sliced_runner.h"
#include "daemon/tenant/tenant.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// Carries out a communicator's operations among the ranks of this host. Thread: engine.
class LocalRunner {
 public:
  /// Requires: the services, the owner and the tenant outlive the runner.
  LocalRunner(const CommunicatorServices& services, LocalOwner* owner, const Tenant* tenant,
              int ranks);

  /// Returns whether Start need not wait for the collective's plan: it is made, or made at once, or
  /// not needed.
  bool HasPlan(const MatchedOperation& operation) const;
  /// Makes the plan in the background, and calls `made` with the outcome later, unless the runner
  /// is gone by then. Does nothing if the plan is being made. Requires: HasPlan is false, and the
  /// ranks agree.
  void MakePlan(const MatchedOperation& operation, std::function<void(const Status&)> made);
  /// Returns whether Start may be called for a collective: not while ranks that copy in it still do
  /// so in an earlier one. Start may be called after the next LocalOwner::OnLocalDone.
  bool HasTurn(const MatchedOperation& operation) const;
  /// Begins to carry out an operation on whose arguments its ranks agree. LocalOwner::OnLocalDone
  /// follows; for an operation without elements Start itself calls it. Returns an error if there is
  /// no plan, or if its buffers cannot be used.
  Status Start(MatchedOperation* operation);
  /// Ends all that is under way early; LocalOwner::OnLocalDone still follows.
  void CancelAll(const Status& why);
  /// The operations under way in which no rank copies private buffers.
  const OperationSet<MatchedOperation>& running() const { return running_; }
  bool empty() const { return running_.empty() && sliced().empty(); }
  /// The operations under way in which ranks copy private buffers.
  const std::vector<MatchedOperation*>& sliced() const { return sliced_.operations(); }

  OneHostPlans& plans() { return *plans_; }

 private:
  static void OnExecuted(Execution* execution);
  void End(MatchedOperation* operation, const Status& outcome);
  Result<const Schedule*> PlanOf(const MatchedOperation& operation);
  Operands GatherOperands(MatchedOperation* operation) const;
  static Operands OperandsInSlices(const MatchedOperation& operation, const Operands& operands);
  Status Bind(MatchedOperation* operation, const Schedule& plan, const Operands& operands);
  void CheckPrediction(const MatchedOperation& operation);

  const CommunicatorServices& services_;
  LocalOwner* const owner_;
  const Tenant* const tenant_;
  const int ranks_;
  const std::shared_ptr<OneHostPlans> plans_;
  OperationSet<MatchedOperation> running_;
  SlicedRunner sliced_;
  /// End of the last collective from which CheckPrediction counts; 0: none.
  uint64_t checked_ns_ = 0;
};

}  // namespace harmonaize::daemon

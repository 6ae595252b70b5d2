#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "daemon/communicator/communicator_services.h"
#include "daemon/communicator/matched_operation.h"
#include "daemon/communicator/one_host_plans.h"
#include "daemon/communicator/operation_set.h"
#include "daemon/tenant/tenant.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// Carries out a communicator's operations among the ranks of this host. Thread: engine.
class LocalRunner {
 public:
  class Owner {
   public:
    /// The operation has been carried out, or given up, with this outcome.
    virtual void OnLocalDone(MatchedOperation* operation, const Status& outcome) = 0;
    /// An exception interrupted OnLocalDone.
    virtual void GiveUp(const Status& exception) = 0;
    /// Charges the tenant for this many bytes more.
    virtual Status Pay(int64_t bytes) = 0;

   protected:
    ~Owner() = default;
  };

  /// Requires: the services, the owner and the tenant outlive the runner.
  LocalRunner(const CommunicatorServices& services, Owner* owner, const Tenant* tenant, int ranks);

  /// Returns whether Start need not wait for the collective's plan: it is made, or made at once, or
  /// not needed.
  bool HasPlan(const MatchedOperation& operation) const;
  /// Makes the plan in the background, and calls `made` with the outcome later, unless the runner
  /// is gone by then. Does nothing if the plan is being made. Requires: HasPlan is false, and the
  /// ranks agree.
  void MakePlan(const MatchedOperation& operation, std::function<void(const Status&)> made);
  /// Begins to carry out an operation on whose arguments its ranks agree. Owner::OnLocalDone
  /// follows; for an operation without elements Start itself calls it. Returns an error if there is
  /// no plan, or if its buffers cannot be used.
  Status Start(MatchedOperation* operation);
  /// Ends all that is under way early; Owner::OnLocalDone still follows.
  void CancelAll(const Status& why);
  bool empty() const { return running_.empty(); }

  OneHostPlans& plans() { return *plans_; }

 private:
  static void OnExecuted(Execution* execution);
  void End(MatchedOperation* operation, const Status& outcome);
  Status Bind(MatchedOperation* operation);
  void CheckPrediction(const MatchedOperation& operation);

  const CommunicatorServices& services_;
  Owner* const owner_;
  const Tenant* const tenant_;
  const int ranks_;
  const std::shared_ptr<OneHostPlans> plans_;
  OperationSet<MatchedOperation> running_;
  /// End of the last collective from which CheckPrediction counts; 0: none.
  uint64_t checked_ns_ = 0;
};

}  // namespace harmonaize::daemon

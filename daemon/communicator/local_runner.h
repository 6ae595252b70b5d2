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
    /// Has the tenant pay for so many bytes more.
    virtual Status Pay(int64_t bytes) = 0;

   protected:
    ~Owner() = default;
  };

  /// The services, the owner and the tenant must outlive the runner.
  LocalRunner(const CommunicatorServices& services, Owner* owner, const Tenant* tenant, int ranks);

  /// Whether Start finds the plan of the collective made, or needs none.
  bool HasPlan(const MatchedOperation& operation) const;
  /// Makes the plan, unless that is under way. `made` is called with the outcome later, unless the
  /// runner is gone by then. Requires: HasPlan is false, and the ranks agree.
  void MakePlan(const MatchedOperation& operation, std::function<void(const Status&)> made);
  /// Begins to carry out an operation on whose arguments its ranks agree; Owner::OnLocalDone
  /// follows, for one without elements from within. Errors: there is no plan, or its buffers cannot
  /// be used.
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
  uint64_t checked_ns_ = 0;  ///< When the last collective ended from which CheckPrediction counts.
};

}  // namespace harmonaize::daemon

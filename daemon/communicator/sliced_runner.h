#pragma once

#include <cstdint>
#include <memory>

#include "daemon/communicator/communicator_services.h"
#include "daemon/communicator/local_owner.h"
#include "daemon/communicator/matched_operation.h"
#include "src/base/status.h"
#include "src/executor/host/fed_execution.h"
#include "src/executor/host/sliced_execution.h"
#include "src/schedule/ir/schedule.h"

namespace harmonaize::daemon {

/// Carries out a communicator's collectives among ranks of this host of which some copy private
/// buffers meanwhile, through windows. One at a time: a rank has words for one. Thread: engine.
class SlicedRunner final : private FedExecutionOwner {
 public:
  /// Requires: the services and the owner outlive the runner.
  SlicedRunner(const CommunicatorServices& services, LocalOwner* owner, int ranks)
      : services_(services), owner_(owner), ranks_(ranks) {}

  /// The operation under way; nullptr: none.
  MatchedOperation* operation() const { return operation_; }
  /// Begins an operation by its plan. LocalOwner::OnLocalDone follows, unless an error is returned.
  /// Requires: none is under way, and its feed has ranks.
  Status Start(MatchedOperation* operation, const Schedule& plan, const Operands& operands);
  /// Ends the operation under way early, if there is one.
  void Cancel(const Status& why);

 private:
  void OnDone(FedExecution* execution) override;
  void OnException(FedExecution* execution, const Status& exception) override;
  uint64_t SliceElements(const MatchedOperation& operation) const;

  const CommunicatorServices& services_;
  LocalOwner* const owner_;
  const int ranks_;
  std::unique_ptr<SlicedExecution> execution_;  // made when it is wanted first
  MatchedOperation* operation_ = nullptr;
};

}  // namespace harmonaize::daemon

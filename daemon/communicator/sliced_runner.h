#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/communicator/communicator_services.h"
#include "daemon/communicator/local_owner.h"
#include "daemon/communicator/matched_operation.h"
#include "src/base/status.h"
#include "src/executor/host/fed_execution.h"
#include "src/executor/host/sliced_execution.h"
#include "src/schedule/ir/schedule.h"

namespace harmonaize::daemon {

/// Carries out a communicator's operations among ranks of this host of which some copy private
/// buffers meanwhile, through windows. The caller sees to it that a rank's lanes are free
/// (SliceLane): so there is one collective at a time, and a rank sends and receives one at a time.
/// Thread: engine.
class SlicedRunner final : private FedExecutionOwner {
 public:
  /// Requires: the services and the owner outlive the runner.
  SlicedRunner(const CommunicatorServices& services, LocalOwner* owner, int ranks)
      : services_(services), owner_(owner), ranks_(ranks) {}

  /// Returns whether a collective is under way.
  bool has_collective() const;
  /// Operations under way.
  const std::vector<MatchedOperation*>& operations() const { return operations_; }
  /// Begins an operation by its plan. LocalOwner::OnLocalDone follows, unless an error is returned.
  /// Requires: the operation's feed has ranks. The lanes of these ranks are free.
  Status Start(MatchedOperation* operation, const Schedule& plan, const Operands& operands);
  /// Ends the operations under way early.
  void CancelAll(const Status& why);

 private:
  void OnDone(FedExecution* execution) override;
  void OnException(FedExecution* execution, const Status& exception) override;
  Result<std::unique_ptr<SlicedExecution>> TakeExecution();
  void Remove(MatchedOperation* operation);
  uint64_t SliceElements(const MatchedOperation& operation, const Operands& operands) const;

  const CommunicatorServices& services_;
  LocalOwner* const owner_;
  const int ranks_;
  std::vector<std::unique_ptr<SlicedExecution>> idle_;
  std::vector<MatchedOperation*> operations_;
};

}  // namespace harmonaize::daemon

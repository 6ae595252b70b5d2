#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/runtime/fed_executions.h"
#include "daemon/sharing/job_activity.h"
#include "src/base/status.h"
#include "src/executor/host/fed_execution.h"
#include "src/executor/network/network_execution.h"

namespace harmonaize::daemon {

class Communicator;
struct MatchedOperation;

/// The operations with other hosts that are under way here. Thread: engine.
class NetworkOperations final : private FedExecutionOwner {
 public:
  /// Requires: `executions` outlives this object.
  explicit NetworkOperations(FedExecutions* executions) : executions_(executions) {}

  /// Begins to carry out an operation by its plan and with its buffers; `binding` has the other
  /// arguments. OtherHosts::OnNetworkDone follows, unless an error is returned.
  Status Start(MatchedOperation* operation, NetworkBinding binding);

  /// Notes that a communicator of this job (Session::gang) begins to send messages in pipes, or has
  /// none under way any more.
  void BeginMessages(uint32_t job);
  void EndMessages(uint32_t job);

  bool empty() const { return under_way_ == 0 && with_messages_ == 0; }

 private:
  void OnDone(FedExecution* execution) override;
  void OnException(FedExecution* execution, const Status& exception) override;

  FedExecutions* const executions_;
  JobActivity activity_;
  size_t under_way_ = 0;      // operations that have not been ended
  size_t with_messages_ = 0;  // communicators that send messages
};

}  // namespace harmonaize::daemon

#pragma once

#include <cstddef>

#include "daemon/sharing/job_activity.h"
#include "src/base/intrusive_list.h"
#include "src/base/status.h"
#include "src/executor/network/network_execution.h"

namespace harmonaize::daemon {

class Communicator;
struct MatchedOperation;

/// The operations with other hosts that are under way here. A tenant may have tens of thousands, so
/// a round looks only at those that are done, and at those whose ranks still copy. Thread: engine.
class NetworkOperations {
 public:
  /// Begins to carry out an operation by its plan and with its buffers; `binding` has the other
  /// arguments. OtherHosts::OnNetworkDone follows, unless an error is returned.
  Status Start(MatchedOperation* operation, NetworkBinding binding);
  /// Feeds the operations under way, and ends some of those that are done. Returns whether there
  /// was something to do.
  bool Run();

  bool empty() const { return under_way_ == 0; }
  /// Returns whether Run has something to do already.
  bool AnyToDo() const;

 private:
  bool FeedSome();
  bool EndSome();
  void End(MatchedOperation* operation);

  JobActivity activity_;
  size_t under_way_ = 0;                      // operations that have not been ended
  IntrusiveList<NetworkExecution> feeding_;  // under way, with ranks that copy along
  IntrusiveList<NetworkExecution> done_;
};

}  // namespace harmonaize::daemon

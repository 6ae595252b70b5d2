#pragma once

#include <cstdint>
#include <vector>

#include "daemon/sharing/job_activity.h"
#include "src/base/status.h"
#include "src/executor/network/network_execution.h"

namespace harmonaize::daemon {

class Communicator;
struct MatchedOperation;

/// The operations with other hosts that are under way here. Thread: engine.
class NetworkOperations {
 public:
  /// Begins to carry out an operation by its plan and with its buffers; `binding` has the other
  /// arguments. OtherHosts::OnNetworkDone follows, unless an error is returned.
  Status Start(MatchedOperation* operation, NetworkBinding binding);
  /// Feeds the operations under way, and ends those that are done. Returns whether there was
  /// something to do.
  bool Run();

  bool empty() const { return under_way_.empty(); }
  /// Returns whether Run has something to feed already.
  bool CanFeed() const;

 private:
  void Feed(MatchedOperation* operation, bool* progress);
  void End(MatchedOperation* operation);

  JobActivity activity_;
  std::vector<MatchedOperation*> under_way_;
};

}  // namespace harmonaize::daemon

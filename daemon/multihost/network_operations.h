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
  /// Carries out what the operation's plan and buffers say; `binding` has the rest.
  /// OtherHosts::OnNetworkDone follows, unless there is an error.
  Status Start(MatchedOperation* operation, NetworkBinding binding);
  /// Feeds what is under way, and ends what is done. Whether there was something to do.
  bool Run();

  bool empty() const { return under_way_.empty(); }
  /// Whether Run has something to do already.
  bool CanFeed() const;

 private:
  void Feed(MatchedOperation* operation, bool* progress);
  void End(MatchedOperation* operation);

  JobActivity activity_;
  std::vector<MatchedOperation*> under_way_;
};

}  // namespace harmonaize::daemon

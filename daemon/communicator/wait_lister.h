#pragma once

#include <cstdint>

#include "daemon/communicator/collective_window.h"
#include "daemon/communicator/communicator_wait.h"
#include "daemon/communicator/pair_matcher.h"

namespace harmonaize::daemon {

class Communicator;
struct MatchedOperation;

/// Lists what a communicator waits for, for the diagnosis. Thread: engine.
class WaitLister {
 public:
  /// Requires: all of them outlive the lister.
  WaitLister(const Communicator* communicator, const CollectiveWindow* window,
             const PairMatcher* pairs)
      : communicator_(communicator), window_(window), pairs_(pairs) {}

  /// Returns the operations in which ranks here have waited for at least `least_ns`.
  CommunicatorWaits List(uint64_t now_ns, uint64_t least_ns) const;
  /// Returns the ranks of this host that have not posted the collective, or whose streams have not
  /// come to it; none if it has begun here.
  CommunicatorWait Absent(const OperationKey& key) const;

 private:
  void AddCollective(uint64_t now_ns, uint64_t least_ns, CommunicatorWaits* waits) const;
  void AddUnderWay(uint64_t now_ns, uint64_t least_ns, CommunicatorWaits* waits) const;
  void AddPairs(uint64_t now_ns, uint64_t least_ns, CommunicatorWaits* waits) const;
  void AddByRanks(uint64_t now_ns, CommunicatorWaits* waits) const;
  void ListAbsent(const MatchedOperation* operation, CommunicatorWait* wait) const;

  const Communicator* const communicator_;
  const CollectiveWindow* const window_;
  const PairMatcher* const pairs_;
};

/// Returns what an operation that is being carried out waits for, as far as it is known here.
CommunicatorWait UnderWay(const MatchedOperation& operation, uint64_t since_ns);
/// Returns the key of the operation that the part belongs to.
OperationKey KeyOf(const PostedOperation& part);

}  // namespace harmonaize::daemon

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/cluster/messages/diagnosis.h"
#include "daemon/tenant/posted_operation.h"

namespace harmonaize::daemon {

/// Returns the time since `since_ns`; 0 for a time to come.
inline uint64_t AgeAt(uint64_t since_ns, uint64_t now_ns) {
  return now_ns - std::min(now_ns, since_ns);
}

/// A rank that an operation waits for.
struct AwaitedRank {
  int rank = 0;
  Awaited awaited = Awaited::kCall;
};

/// An operation that does not get on, as this host sees it. The parts are there until the engine
/// does something else.
struct CommunicatorWait {
  /// The most ranks that are listed.
  static constexpr size_t kMostRanks = kMostStandings;

  void Add(int rank, Awaited what) {
    if (awaited.size() < kMostRanks) awaited.push_back({rank, what});
  }

  OperationKey key;
  std::string operation;    ///< "AllReduce #12", "Send 0 -> 1".
  uint64_t since_ns = 0;    ///< Since when the first rank here waits.
  bool all_posted = false;  ///< All ranks here have posted it, and it is being carried out.
  bool begun = true;        ///< False: all ranks here are ready, and it waits for its turn or plan.
  uint64_t progress = 0;    ///< Changes whenever it gets on.
  double usual_seconds = 0;  ///< What such an operation usually takes; 0: unknown.
  /// The ranks that it waits for: of this host, and the peers of sends and receives.
  std::vector<AwaitedRank> awaited;
  std::vector<int> senders;               ///< Ranks of other hosts whose data it waits for.
  std::vector<PostedOperation*> waiting;  ///< The parts here that wait.
  /// Of OperationKey::by_ranks, instead of parts: the ranks that say that they wait. Since when is
  /// then known from the first look at the same progress.
  std::vector<int> waiting_ranks;
};

/// The operations of one communicator that do not get on: a few of each kind, the oldest first as
/// far as these begin in order.
struct CommunicatorWaits {
  /// The most operations that are listed.
  static constexpr size_t kMost = 16;

  bool full() const { return listed.size() >= kMost; }

  std::vector<CommunicatorWait> listed;
};

}  // namespace harmonaize::daemon

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/runtime/waiting_count.h"
#include "daemon/tenant/posted_operation.h"
#include "daemon/tenant/rank_feed.h"
#include "src/base/status.h"
#include "src/executor/host/execution.h"
#include "src/executor/network/network_execution.h"

namespace harmonaize::daemon {

class Communicator;
class HostPlan;

/// The parts of one operation that belong together: one of every rank, or a send and its receive.
struct MatchedOperation {
  Communicator* communicator = nullptr;
  uint64_t sequence = 0;
  /// By rank, of those on this host; of a pair, sender then receiver, or the one that is here.
  std::vector<PostedOperation*> parts;
  int arrived = 0;
  int ready = 0;
  size_t place_in_set = 0;  ///< OperationSet's.
  bool doomed = false;      ///< It fails soon; see Doomed.
  /// While ranks are missing, or the home's word how it ends.
  WaitingHold waiting;
  uint64_t first_arrival_ns = 0;
  uint64_t next_report_ns = 0;  ///< When to report ranks that are missing, or their data.
  /// The executor works with these; they are kept for reuse.
  Execution execution;
  std::vector<Buffer> inputs;
  std::vector<Buffer> outputs;
  std::vector<uint64_t> scalars;

  // The following are used where the communicator spans hosts.

  HostPlan* plan = nullptr;
  NetworkExecution* network = nullptr;
  RankFeed feed;
  uint64_t number = 0;  ///< Of the names of its messages.
  uint64_t started_ns = 0;
  uint32_t job = 0;             ///< JobActivity's.
  bool reported = false;        ///< The home knows that it takes long.
  Status verdict;               ///< How it ends whatever becomes of it here.
  bool told = false;            ///< The verdict comes from elsewhere, so that all know of it.
  bool done_here = false;       ///< Only the word that all have begun the same is missing.
  std::vector<int> late_ranks;  ///< Of other hosts, by the home's last notice.
};

}  // namespace harmonaize::daemon

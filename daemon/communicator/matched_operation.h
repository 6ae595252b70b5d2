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
class LocalRunner;

/// How an operation is carried out among the ranks of this host. LocalRunner's.
struct LocalRun {
  LocalRunner* runner = nullptr;
  Execution execution;
};

/// How an operation is carried out with other hosts. NetworkRunner's.
struct NetworkRun {
  HostPlan* plan = nullptr;
  NetworkExecution* execution = nullptr;
  RankFeed feed;
  uint64_t number = 0;  ///< Of the names of its messages.
  uint64_t started_ns = 0;
  uint32_t job = 0;             ///< JobActivity's.
  bool reported = false;        ///< The home knows that it takes long.
  bool told = false;            ///< The verdict comes from elsewhere, so that all know of it.
  bool done_here = false;       ///< Only the word that all have begun the same is missing.
  std::vector<int> late_ranks;  ///< Of other hosts, by the home's last notice.
};

/// The parts of one operation that belong together: one of every rank, or a send and its receive.
/// It is kept for reuse, with the memory of its lists.
struct MatchedOperation {
  Communicator* communicator = nullptr;
  uint64_t sequence = 0;
  /// By rank, of those on this host; of a pair, sender then receiver, or the one that is here.
  std::vector<PostedOperation*> parts;
  int arrived = 0;
  int ready = 0;
  size_t place_in_set = 0;  ///< OperationSet's.
  bool doomed = false;      ///< It fails soon; see Doomed.
  Status verdict;           ///< How it ends whatever becomes of it here.
  /// While ranks are missing, or the home's word how it ends.
  WaitingHold waiting;
  uint64_t first_arrival_ns = 0;
  uint64_t next_report_ns = 0;  ///< When to report ranks that are missing, or their data.
  /// The executor works with these.
  std::vector<Buffer> inputs;
  std::vector<Buffer> outputs;
  std::vector<uint64_t> scalars;
  LocalRun local;
  NetworkRun network;
};

}  // namespace harmonaize::daemon

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/runtime/waiting_count.h"
#include "daemon/tenant/posted_operation.h"
#include "daemon/tenant/rank_feed.h"
#include "src/base/status.h"
#include "src/executor/host/execution.h"
#include "src/executor/host/sliced_execution.h"
#include "src/executor/network/network_execution.h"

namespace harmonaize::daemon {

class Communicator;
class HostPlan;
class LocalRunner;

/// How an operation is carried out among the ranks of this host. Used by LocalRunner.
struct LocalRun {
  LocalRunner* runner = nullptr;
  Execution execution;
  std::unique_ptr<SlicedExecution> sliced;  ///< Set while it goes slice by slice.
};

/// How an operation is carried out with other hosts. Used by NetworkRunner.
struct NetworkRun {
  HostPlan* plan = nullptr;
  NetworkExecution* execution = nullptr;
  uint64_t number = 0;          ///< The number in the names of its messages.
  uint32_t job = 0;             ///< The job that JobActivity counts it for.
  bool reported = false;        ///< The home knows that it takes long.
  bool told = false;            ///< The verdict came from another host, so all hosts know of it.
  bool done_here = false;       ///< Only the word is missing that all hosts have begun the same.
  std::vector<int> late_ranks;  ///< Ranks of other hosts, by the home's last notice.
};

/// The parts of one operation that belong together: one of every rank, or a send and its receive.
/// It is kept for reuse, with the memory of its lists.
struct MatchedOperation {
  Communicator* communicator = nullptr;
  uint64_t sequence = 0;
  /// The parts of the ranks on this host, by rank. Of a pair: the sender's and then the receiver's,
  /// or the one that is here.
  std::vector<PostedOperation*> parts;
  int arrived = 0;
  int ready = 0;
  size_t places = 0;        ///< OperationPool's: ranks for which the tenant has paid.
  size_t place_in_set = 0;  ///< Its place in an OperationSet.
  bool in_turn = false;     ///< A pair that has been launched.
  bool doomed = false;      ///< It fails soon; see Doomed.
  Status verdict;           ///< How it ends, whatever becomes of it here.
  /// Held while ranks are missing, or the home's word how the operation ends.
  WaitingHold waiting;
  uint64_t first_arrival_ns = 0;
  uint64_t started_ns = 0;      ///< When its execution began, where this is looked at.
  uint64_t next_report_ns = 0;  ///< When to report missing ranks, or ranks whose data is missing.
  /// The executor works with these.
  std::vector<MemoryView> inputs;
  std::vector<MemoryView> outputs;
  std::vector<uint64_t> scalars;
  RankFeed feed;  ///< Its ranks that copy private buffers while it is under way.
  LocalRun local;
  NetworkRun network;
};

/// Returns whether ranks copy private buffers while the operation is under way.
inline bool HasWindows(const MatchedOperation& operation) {
  return std::any_of(operation.parts.begin(), operation.parts.end(),
                     [](const PostedOperation* part) { return HasWindows(*part); });
}

}  // namespace harmonaize::daemon

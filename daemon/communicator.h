#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "daemon/inline_segment.h"
#include "daemon/member.h"
#include "daemon/posted_operation.h"
#include "daemon/tenant.h"
#include "src/executor/execution.h"
#include "src/schedule/schedule.h"

namespace harmonaize::daemon {

class Engine;

/// The parts of one operation that belong together: one of every rank, or a send and its receive.
struct MatchedOperation {
  Communicator* communicator = nullptr;
  uint64_t sequence = 0;
  std::vector<PostedOperation*> parts;  ///< By rank; of a pair, sender then receiver.
  int arrived = 0;
  int ready = 0;
  uint64_t first_arrival_ns = 0;
  uint64_t next_report_ns = 0;  ///< When to report the ranks that are still missing.
  /// What the executor is bound to, kept for reuse.
  Execution execution;
  std::vector<Buffer> inputs;
  std::vector<Buffer> outputs;
  std::vector<uint64_t> scalars;
};

/// An operation that waits for ranks, for the operator and for late notices.
struct WaitingOperation {
  std::string operation;  ///< "AllReduce #12", "Send 0 -> 1".
  double for_seconds = 0;
  std::vector<int> missing_ranks;
};

/// The daemon's side of a communicator: matches what its ranks post, launches what is complete, and
/// ends what never will be. Engine thread only.
class Communicator {
 public:
  enum class State { kReady, kRevoked, kBroken };

  /// `members` by rank; none is null.
  Communicator(Engine* engine, uint64_t id, std::string name, Tenant* tenant,
               std::vector<Member*> members);
  ~Communicator();

  uint64_t id() const { return id_; }
  const std::string& name() const { return name_; }
  Tenant& tenant() { return *tenant_; }
  int ranks() const { return static_cast<int>(members_.size()); }
  State state() const { return state_; }
  const Status& failure() const { return failure_; }
  /// The rank's member; nullptr once it has left.
  Member* member(int rank) const { return members_[static_cast<size_t>(rank)]; }

  // Operations.

  /// Takes in a part, before its stream was asked whether it is ready.
  void Post(PostedOperation* part);
  /// The part's stream has come this far.
  void OnReady(PostedOperation* part);
  /// The executor has finished what Launch gave it.
  void OnExecuted(MatchedOperation* operation);

  // Ranks that go, and communicators that end.

  /// The rank leaves in peace: what waits for it ends with an error, the rest goes on.
  void Leave(int rank);
  /// Every operation of every rank ends with `why`; nothing can be posted any more.
  void Break(const Status& why);
  /// The same, but the ranks stay in good standing, to split or shrink.
  void Revoke(const Status& why);

  /// Whether an operation is being executed now.
  bool executing() const { return !in_flight_.empty(); }
  /// Whether every rank has left and nothing is in flight: it may be destroyed.
  bool abandoned() const;

  /// Reports ranks that have kept others waiting for longer than `late_after_ns`.
  void ReportLate(uint64_t now_ns, uint64_t late_after_ns);
  std::vector<WaitingOperation> Waiting(uint64_t now_ns) const;

  uint64_t operations() const { return operations_; }
  uint64_t bytes() const { return bytes_; }

  /// The segment on which the ranks carry out small operations themselves, made at the first
  /// request; nullptr where there is none.
  Result<InlineSegment*> Inline();
  const InlineSegment* inline_segment() const { return inline_segment_.get(); }

  /// The schedule for a collective on this communicator; made at the first request.
  const Schedule& PlanFor(Collective collective, int root, bool in_place);

 private:
  struct PairQueue {
    std::deque<PostedOperation*> sends;
    std::deque<PostedOperation*> receives;
    uint64_t next_report_ns = 0;
  };
  using PairKey = std::pair<int, int>;  // sender, receiver

  void PostCollective(PostedOperation* part);
  void PostPair(PostedOperation* part);
  void LaunchReady();
  void Launch(MatchedOperation* operation);
  Status CheckAgreement(const MatchedOperation& operation) const;
  void Bind(MatchedOperation* operation, Status* status);
  static int NodeOf(const MatchedOperation& operation);
  void LoseRanksWithoutMemory(const MatchedOperation& operation);
  void LoseFaultyRank(const MatchedOperation& operation, const Status& why);
  std::string ExplainExecution(const MatchedOperation& operation) const;

  void FailMatched(MatchedOperation* operation, const Status& why);
  void Decide(PostedOperation* part, const Status& outcome);
  void FailEverything(const Status& why);
  void FailPairsWith(int rank, const Status& why);

  MatchedOperation* NewOperation(size_t parts);
  void Recycle(MatchedOperation* operation);
  void Count(const MatchedOperation& operation);
  std::string DescribeRank(int rank) const;
  void Notify(const std::vector<PostedOperation*>& waiting, const std::string& notice);

  Engine* const engine_;
  const uint64_t id_;
  const std::string name_;
  Tenant* const tenant_;
  std::vector<Member*> members_;
  State state_ = State::kReady;
  Status failure_;

  /// Collectives that are not launched, by sequence number from window_start_ on.
  std::deque<MatchedOperation*> window_;
  uint64_t window_start_ = 0;
  std::map<PairKey, PairQueue> pairs_;
  std::vector<MatchedOperation*> matched_pairs_;  // both here, not both ready
  std::vector<MatchedOperation*> in_flight_;

  std::vector<std::unique_ptr<MatchedOperation>> pool_;
  std::vector<MatchedOperation*> free_operations_;
  std::map<std::tuple<Collective, int, bool>, Schedule> plans_;

  std::unique_ptr<InlineSegment> inline_segment_;

  uint64_t operations_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace harmonaize::daemon

#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "daemon/cluster/messages/message.h"
#include "daemon/cluster/roster.h"
#include "daemon/communicator/collective_window.h"
#include "daemon/communicator/communicator_observer.h"
#include "daemon/communicator/communicator_services.h"
#include "daemon/communicator/doomed.h"
#include "daemon/communicator/inline_segment.h"
#include "daemon/communicator/matched_operation.h"
#include "daemon/communicator/one_host_plans.h"
#include "daemon/communicator/operation_pool.h"
#include "daemon/communicator/operation_set.h"
#include "daemon/communicator/pair_matcher.h"
#include "daemon/communicator/waiting_operations.h"
#include "daemon/runtime/lifetime.h"
#include "daemon/tenant/holdings.h"
#include "daemon/tenant/member.h"
#include "daemon/tenant/posted_operation.h"
#include "daemon/tenant/tenant.h"
#include "src/schedule/ir/schedule.h"

namespace harmonaize::daemon {

class RemotePairs;
class HostGroup;
struct HostServices;

/// What a tenant pays for a communicator.
struct CommunicatorHoldings {
  Holding place;
  Holding memory;  ///< Grows with what the communicator keeps.
};
Result<CommunicatorHoldings> PayForCommunicator(Account& account, size_t ranks);

/// The daemon's side of a communicator: matches what its ranks post, launches what is complete, and
/// ends what never will be. Engine thread only.
class Communicator {
 public:
  enum class State { kReady, kRevoked, kBroken };

  /// `members` by rank; nullptr for those on other hosts, which `roster` then tells about. Without
  /// one all are here, and `hosts` is not used.
  Communicator(const CommunicatorServices& services, const HostServices& hosts, uint64_t id,
               std::string name, Tenant* tenant, std::vector<Member*> members,
               std::optional<Roster> roster = {});
  ~Communicator();

  uint64_t id() const { return id_; }
  /// Session::job of those of its ranks that are on this host.
  uint32_t job() const { return job_; }
  void set_job(uint32_t job) { job_ = job; }
  const std::string& name() const { return name_; }
  Tenant& tenant() { return *tenant_; }
  const Tenant& tenant() const { return *tenant_; }
  void Keep(CommunicatorHoldings holdings) { holdings_ = std::move(holdings); }
  int ranks() const { return static_cast<int>(members_.size()); }
  /// Whether it has, or had, any on this host.
  bool has_ranks_here() const { return local_ranks_ > 0; }
  State state() const { return state_; }
  const Status& failure() const { return failure_; }
  /// The rank's member; nullptr once it has left, and for ranks of other hosts.
  Member* member(int rank) const { return members_[static_cast<size_t>(rank)]; }

  // Operations.

  /// Takes in a part, before its stream was asked whether it is ready.
  void Post(PostedOperation* part);
  /// The part's stream has come this far.
  void OnReady(PostedOperation* part);
  /// The network has carried out the operation, or given it up; see NetworkOperations::Start.
  void OnNetworkDone(MatchedOperation* operation);

  // Ranks that go, and communicators that end.

  /// The rank leaves in peace: what waits for it ends with an error, the rest goes on.
  void Leave(int rank);
  /// Every operation of every rank ends with `why`; nothing can be posted any more.
  void Break(const Status& why);
  /// The same, but the ranks stay in good standing, to split or shrink.
  void Revoke(const Status& why);

  bool HasLeft(int rank) const { return left_after_[static_cast<size_t>(rank)] != kStays; }

  // Between hosts (communicator_hosts.cc).

  /// nullptr for a communicator of one host.
  HostGroup* host_group() { return host_group_.get(); }
  const HostGroup* host_group() const { return host_group_.get(); }
  /// What the home, or at the home another host, says of this communicator.
  void OnMessage(transport::PeerId peer, const ClusterMessage& message);
  /// A daemon is lost, and with it the ranks it has.
  void OnPeerLost(transport::PeerId peer);
  /// A plan has come, or will not; or the time to begin again.
  void OnPlanReady();
  /// Tells the home where this host stands with a collective.
  void TellProgress(uint64_t sequence);
  void OnVerdict(uint64_t sequence, const Status& verdict);
  /// All hosts have begun the same collectives up to this one, see StartConfirmations.
  void OnAgreed(uint64_t sequence);
  void OnLate(const LateMessage& late);

  // For RemotePairs.

  Result<MatchedOperation*> StartTransfer(PostedOperation* part, HostPlan* plan, uint64_t number);
  void CancelTransfer(MatchedOperation* operation, const Status& why);
  /// How it went; the operation goes back to the pool.
  Status EndTransfer(MatchedOperation* operation);
  void FinishPart(PostedOperation* part, const Status& outcome);
  /// Puts a warning into the tenant's log, unless its process has been warned of this before.
  void WarnOnce(PostedOperation* part, const std::string& warning);

  /// Ranks that have left, and of which something may still be in flight.
  int departing = 0;
  /// CommunicatorRegistry's.
  bool may_have_ended = false;

  /// Whether an operation is being executed now.
  bool executing() const { return !in_flight_.empty(); }
  /// Whether every rank has left, at the home those of other hosts too: once nothing is executed
  /// any more it may be destroyed.
  bool all_left() const;

  /// Reports ranks that have kept others waiting for longer than `late_after_ns`.
  void ReportLate(uint64_t now_ns, uint64_t late_after_ns);
  WaitingOperations Waiting(uint64_t now_ns) const;

  uint64_t operations() const { return operations_; }
  /// Collectives that were launched here, or ended before.
  uint64_t collectives_begun() const { return window_.start(); }
  uint64_t bytes() const { return bytes_; }

  /// The segment on which the ranks carry out small operations themselves, made at the first
  /// request; nullptr where there is none.
  Result<InlineSegment*> Inline();
  const InlineSegment* inline_segment() const { return inline_segment_.get(); }
  /// A rank has given up a region that others may have mapped.
  void TellRegionGone(int rank, uint32_t region) {
    if (inline_segment_ != nullptr) inline_segment_->TellGone(rank, region);
  }

  /// Makes the engine call soon, unless the communicator is gone by then: for a caller that is in
  /// the middle of something.
  void CallSoon(std::function<void()> call);
  /// Ends, soon, the sessions of this communicator's ranks on this host. An exception interrupted
  /// one of its operations, and the state of the operation's parts is unknown.
  void GiveUp(const Status& exception);

  OneHostPlans& plans() { return *plans_; }
  /// The observers are told what becomes of the communicator.
  const CommunicatorObservers& observers() const { return observers_; }

 private:
  static constexpr uint64_t kStays = UINT64_MAX;

  bool PlanIsMade(const MatchedOperation& operation);
  static void OnExecuted(Execution* execution);
  void Complete(MatchedOperation* operation);
  size_t PlaceOf(const PostedOperation& part) const;
  void FailWindowFrom(uint64_t sequence, const Status& why);
  void PostCollective(PostedOperation* part);
  void PostPair(PostedOperation* part);
  bool PayForPair();
  void LaunchReady();
  void LaunchLater();
  void Launch(MatchedOperation* operation);
  Status CheckAgreement(const MatchedOperation& operation) const;
  void Bind(MatchedOperation* operation, Status* status);
  void WarnOfTypes(const MatchedOperation& operation);
  static int NodeOf(const MatchedOperation& operation);
  void LoseRanksWithoutMemory(const MatchedOperation& operation);
  Status Judge(const MatchedOperation& operation, const Status& end);
  void CheckPrediction(const MatchedOperation& operation);
  void Settle(MatchedOperation* operation, Status outcome);

  // The following are used where the communicator spans hosts.
  bool IsRemote(int rank) const;
  bool Prepare(MatchedOperation* operation);
  Status StartNetwork(MatchedOperation* operation);
  void NoteStarted(MatchedOperation* operation);
  void EndNetwork(MatchedOperation* operation);
  void EndHere(MatchedOperation* operation);
  void Hold(MatchedOperation* operation);
  MatchedOperation* TakeHeld(uint64_t sequence);
  void OnRankLeft(int rank, uint64_t sequence);
  void OnBroken(const BrokenMessage& broken);
  void TellEnd(bool revoked, const Status& why);
  void DropLeftovers(transport::PeerId peer, uint64_t collectives);
  void DropClosed();
  void EndFrom(uint64_t sequence, const Status& why);
  void LoseHost(int host);
  bool IsFrom(transport::PeerId peer, int there, int here);
  uint64_t NeverBegunFrom() const;
  ProgressMessage ProgressOf(uint64_t sequence) const;
  void NoteEnd(const MatchedOperation& operation, const Status& outcome);
  bool EndedWell(uint64_t sequence) const;
  void TellSlow(uint64_t now_ns);
  /// Calls with each operation that was launched and has not ended for its ranks.
  template <typename Call>
  void ForEachBegun(Call&& call) const {
    for (MatchedOperation* operation : in_flight_) call(operation);
    for (MatchedOperation* operation : held_) call(operation);
  }

  void FailMatched(MatchedOperation* operation, const Status& why);
  void Decide(PostedOperation* part, const Status& outcome);
  void FailEverything(const Status& why);
  /// Fails these, the first of them now. Requires: nothing else refers to them any more.
  void Doom(std::vector<MatchedOperation*> operations, std::vector<PostedOperation*> parts,
            const Status& why);
  void FailDoomed();

  /// nullptr, and the communicator is broken, where the tenant may not make the daemon keep more.
  MatchedOperation* NewOperation(size_t parts);
  void Count(const MatchedOperation& operation);
  std::string DescribeRank(int rank) const;
  WaitingOperation Describe(const MatchedOperation& operation, const PostedOperation& first_ready,
                            uint64_t now_ns) const;
  void ReportLateCollective(uint64_t now_ns, uint64_t late_after_ns);
  void ReportFilling(uint64_t now_ns, uint64_t late_after_ns);
  void ReportLatePairs(uint64_t now_ns, uint64_t late_after_ns);
  void Notify(const std::vector<PostedOperation*>& waiting, const std::string& notice);

  const CommunicatorServices services_;
  const HostServices& hosts_;
  const CommunicatorObservers& observers_;
  const uint64_t id_;
  uint32_t job_ = 0;
  const std::string name_;
  Tenant* const tenant_;
  CommunicatorHoldings holdings_;
  std::vector<Member*> members_;       // by rank
  std::vector<uint64_t> left_after_;   // by rank: after so many collectives; kStays: it has not
  std::vector<size_t> place_of_rank_;  // in MatchedOperation::parts
  size_t local_ranks_ = 0;
  State state_ = State::kReady;
  Status failure_;

  CollectiveWindow window_;
  PairMatcher pairs_;
  size_t paid_pairs_ = 0;                         ///< So many pairs of ranks may wait in `pairs_`.
  OperationSet<MatchedOperation> matched_pairs_;  // both here, not both ready
  OperationSet<MatchedOperation> in_flight_;

  Doomed doomed_;
  bool doom_posted_ = false;    ///< FailDoomed will be called.
  bool launch_posted_ = false;  ///< LaunchReady will be called.
  OperationPool pool_;
  const std::shared_ptr<OneHostPlans> plans_;
  std::unique_ptr<InlineSegment> inline_segment_;
  uint64_t checked_ns_ = 0;  ///< When the last collective ended from which CheckPrediction counts.

  // The following are used where the communicator spans hosts.
  std::unique_ptr<HostGroup> host_group_;
  std::unique_ptr<RemotePairs> remote_pairs_;
  std::vector<MatchedOperation*> held_;           // ended here; the home will say how it ends
  std::map<uint64_t, Status> early_verdicts_;     // by sequence, before any rank has come
  std::set<uint64_t> wanted_;                     // sequences that the home asked about
  std::deque<ProgressMessage> history_;           // of the last ones that have ended
  std::map<transport::PeerId, uint64_t> closed_;  // what ClosedMessages have said

  uint64_t operations_ = 0;
  uint64_t bytes_ = 0;
  Lifetime lifetime_;
};

}  // namespace harmonaize::daemon

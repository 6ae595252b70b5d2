#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/communicator/collective_window.h"
#include "daemon/communicator/communicator_observer.h"
#include "daemon/communicator/communicator_services.h"
#include "daemon/communicator/communicator_wait.h"
#include "daemon/communicator/deadline_watch.h"
#include "daemon/communicator/doomed.h"
#include "daemon/communicator/gap_estimate.h"
#include "daemon/communicator/inline_segment.h"
#include "daemon/communicator/late_reporter.h"
#include "daemon/communicator/local_runner.h"
#include "daemon/communicator/matched_operation.h"
#include "daemon/communicator/operation_pool.h"
#include "daemon/communicator/operation_set.h"
#include "daemon/communicator/operation_terms.h"
#include "daemon/communicator/other_hosts.h"
#include "daemon/communicator/pair_lanes.h"
#include "daemon/communicator/pair_matcher.h"
#include "daemon/communicator/pipes.h"
#include "daemon/communicator/wait_lister.h"
#include "daemon/communicator/waiting_operations.h"
#include "daemon/quota/holdings.h"
#include "daemon/quota/paid_in_batches.h"
#include "daemon/runtime/lifetime.h"
#include "daemon/tenant/member.h"
#include "daemon/tenant/mismatch.h"
#include "daemon/tenant/posted_operation.h"
#include "daemon/tenant/tenant.h"
#include "src/requirements/terms.h"

namespace harmonaize::daemon {

struct Job;

/// Resources that a tenant is charged for a communicator.
struct CommunicatorHoldings {
  Holding place;
  Holding memory;  ///< Grows with what the communicator keeps.
};
Result<CommunicatorHoldings> PayForCommunicator(Account& account, size_t ranks);

/// The daemon's side of a communicator: matches the operations that its ranks post, launches those
/// that are complete, and fails those that never will be. LocalRunner carries out the operations
/// that concern this host alone, OtherHosts the others. Thread: engine.
class Communicator final : private LocalOwner {
 public:
  enum class State { kReady, kRevoked, kBroken };

  /// `members` is by rank, with nullptr for ranks on other hosts, which Span then adds.
  Communicator(const CommunicatorServices& services, uint64_t id, std::string name, Tenant* tenant,
               std::vector<Member*> members);
  ~Communicator();
  /// Adds the communicator's side of other hosts, where some of its ranks are. Requires: no rank
  /// has posted anything.
  void Span(std::unique_ptr<OtherHosts> other_hosts) { other_hosts_ = std::move(other_hosts); }

  uint64_t id() const { return id_; }
  /// Session::gang of its ranks on this host.
  uint32_t gang() const { return gang_; }
  void set_gang(uint32_t gang) { gang_ = gang; }
  /// The job that it belongs to; nullptr only before CommunicatorMaker has made it known.
  Job* job() const { return job_; }
  void SetJob(Job* job);
  /// Returns the terms that were granted to its job.
  const JobTerms& terms() const;
  /// Returns those of its own operations.
  const CommunicatorTerms& own_terms();
  /// Returns what they mean for an operation.
  const OperationTerms& TermsOf(const OperationDescriptor& descriptor);
  void SetWorkTerms(const OperationDescriptor& descriptor, Operands* operands) override;
  /// Goes by the terms of now, where the last ones were made use of before.
  void OnTermsChanged();
  const std::string& name() const { return name_; }
  /// Tells it from the tenant's other communicators: 8 random hexadecimal digits, the same at all
  /// hosts.
  const std::string& handle() const { return handle_; }
  void set_handle(std::string handle) { handle_ = std::move(handle); }
  /// Returns what people call it: its name, or without one its handle.
  const std::string& label() const { return name_.empty() ? handle_ : name_; }
  Tenant& tenant() { return *tenant_; }
  const Tenant& tenant() const { return *tenant_; }
  void Keep(CommunicatorHoldings holdings) { holdings_ = std::move(holdings); }
  int ranks() const { return static_cast<int>(members_.size()); }
  /// Returns whether it has, or had, any ranks on this host.
  bool has_ranks_here() const { return local_ranks_ > 0; }
  State state() const { return state_; }
  const Status& failure() const { return failure_; }
  /// Notes that ranks have disagreed about the collective of this number, or about a send and its
  /// receive. Unless it begins another collective after that, later failures tell of this first.
  void NoteDisagreement(uint64_t sequence, const Status& error);
  /// Returns what has gone wrong first: why it broke or was revoked, or what ranks disagreed about;
  /// Ok if nothing has, or ranks have got over a disagreement.
  Status FirstFailure() const;
  /// The rank's member; nullptr once it has left, and for ranks of other hosts.
  Member* member(int rank) const { return members_[static_cast<size_t>(rank)]; }
  /// nullptr for a communicator of one host.
  OtherHosts* other_hosts() const { return other_hosts_.get(); }
  /// The hosts that it spans; nullptr for a communicator of one host.
  HostGroup* host_group() const {
    return other_hosts_ == nullptr ? nullptr : &other_hosts_->group();
  }
  bool IsRemote(int rank) const { return other_hosts_ != nullptr && other_hosts_->IsRemote(rank); }

  // Operations.

  /// Takes in a part, before its stream was asked whether it is ready. A message has no stream, and
  /// may have ended when this returns.
  void Post(PostedOperation* part);
  /// Closes a pipe between a rank of this host and a peer. Its messages end, at both ends. Errors:
  /// kInvalidArgument if there is no such peer.
  Status ClosePipe(const PipeId& id);
  /// Notes that the part's stream has come to it, and launches what is complete now.
  void OnReady(PostedOperation* part);
  /// Begins the collectives that all ranks here are ready for, in order.
  void LaunchReady();
  /// Tries again to begin collectives: a plan has come or will not come, or it is time to try
  /// again.
  void OnPlanReady();
  /// Returns whether an operation is being executed now. With other hosts also, whether sends and
  /// receives have yet to be told that they end.
  bool executing() const;

  // Ranks that go, and communicators that end.

  /// Lets a rank leave in peace: operations that wait for it end with an error, the others go on.
  void Leave(int rank);
  /// Ends every operation of every rank with `why`; nothing can be posted any more.
  void Break(const Status& why);
  /// Does what Break does, but the ranks stay in good standing, to split or shrink.
  void Revoke(const Status& why);
  /// Ends the operations because a rank is lost: breaks it, or revokes it where the job's other
  /// ranks want to go on.
  void LoseRank(const Status& why);
  /// Ends, soon, the sessions of this communicator's ranks on this host. An exception interrupted
  /// one of its operations, and the state of the operation's parts is unknown.
  void GiveUp(const Status& exception) override;

  bool HasLeft(int rank) const { return left_after_[static_cast<size_t>(rank)] != kStays; }
  /// The first collective for which a rank is missing; kStays if no rank has left.
  uint64_t first_left() const;
  /// Stands for the number of collectives of a rank that has not left.
  static constexpr uint64_t kStays = UINT64_MAX;
  /// Returns whether every rank of this host has left, and at the home those of other hosts, too.
  /// Once nothing is executed any more the communicator may be destroyed.
  bool all_left() const;
  /// Number of ranks that have left, and of which something may still be in flight.
  int departing = 0;
  /// Whether CommunicatorRegistry has noted that it may have ended.
  bool may_have_ended = false;

  // Reports and statistics.

  /// Reports ranks that have kept others waiting for longer than `late_after_ns`, or than the job's
  /// terms say.
  void ReportLate(uint64_t now_ns, uint64_t late_after_ns);
  WaitingOperations Waiting(uint64_t now_ns) const;
  /// What its operations wait for, for the diagnosis.
  const WaitLister& waits() const { return wait_lister_; }
  /// How long it usually has no collective, and no send or receive.
  const GapEstimate& collective_gap() const { return collective_gap_; }
  const GapEstimate& pair_gap() const { return pair_gap_; }
  /// Knows what late ranks do; nullptr: nobody does.
  const LateExplainer* explainer() const { return services_.explainer; }
  uint64_t operations() const { return operations_; }
  /// Messages in pipes, those that have ended included.
  uint64_t messages() const { return messages_; }
  /// Collectives that were launched here, or ended before.
  uint64_t collectives_begun() const { return window_.start(); }
  uint64_t bytes() const { return bytes_; }
  /// Knows how the operations that the daemon carries out keep the deadline that was granted.
  const DeadlineWatch& deadlines() const { return deadlines_; }
  /// The observers are told what becomes of the communicator.
  const CommunicatorObservers& observers() const { return *services_.observers; }
  /// Tells observers, and the ranks of these parts, that ranks are late.
  void Notify(const std::vector<PostedOperation*>& waiting, const std::string& notice);
  /// The same for ranks that wait in an operation which they carry out themselves.
  void NotifyRanks(const std::vector<int>& ranks, const std::string& notice);
  /// Returns "rank 3 (process 4711)", or "rank 3" for a rank that is not on this host.
  std::string DescribeRank(int rank) const;

  /// Returns the segment on which the ranks carry out small operations themselves, made at the
  /// first request; nullptr if the communicator has no inline path.
  Result<InlineSegment*> Inline();
  const InlineSegment* inline_segment() const { return inline_segment_.get(); }
  /// Tells the other ranks that a rank has given up a region that they may have mapped.
  void TellRegionGone(int rank, uint32_t region) {
    if (inline_segment_ != nullptr) inline_segment_->TellGone(rank, region);
  }

  /// Makes the engine call soon, unless the communicator is gone by then: for a caller that is in
  /// the middle of something.
  void CallSoon(std::function<void()> call);
  OneHostPlans& plans() { return local_.plans(); }

  // For OtherHosts.

  const CollectiveWindow& window() const { return window_; }
  /// Notes that a rank of another host has left, after this many collectives.
  void NoteLeft(int rank, uint64_t after) { left_after_[static_cast<size_t>(rank)] = after; }
  /// Fails the collectives from this sequence number on. They have not begun.
  void FailWindowFrom(uint64_t sequence, const Status& why);
  /// The rank's part; nullptr if it has not posted. Requires: the rank is on this host.
  const PostedOperation* PartOf(const MatchedOperation& operation, int rank) const;
  bool executing_here() const { return !local_.empty(); }
  /// The operations of one host under way in which no rank copies private buffers.
  const OperationSet<MatchedOperation>& running_here() const { return local_.running(); }
  /// The operations of one host under way in which ranks copy private buffers.
  const std::vector<MatchedOperation*>& sliced() const { return local_.sliced(); }
  /// Returns OK if the ranks here ask for the same operation. Otherwise returns an error that says
  /// what each rank asks for, or which request is invalid.
  Status CheckAgreement(const MatchedOperation& operation) const;
  /// Returns an operation of `parts` parts that binds the buffers of `ranks` ranks. Returns
  /// nullptr, and breaks the communicator, if the tenant has no memory left for it.
  MatchedOperation* NewOperation(size_t parts, size_t ranks);
  void GiveBack(MatchedOperation* operation) { pool_.GiveBack(operation); }
  /// Returns the outcome for the ranks of an operation whose execution has ended with status `end`.
  /// Breaks the communicator if memory of a rank is not there any more.
  Status Judge(const MatchedOperation& operation, const Status& end);
  /// Breaks the communicator if memory of a rank of the operation is not there any more.
  void LoseRanksWithoutMemory(const MatchedOperation& operation);
  /// Tells the ranks how an operation has ended that was carried out, and gives it back.
  void Settle(MatchedOperation* operation, Status outcome);
  /// Fails an operation that was not carried out, tells the ranks, and gives it back.
  void FailMatched(MatchedOperation* operation, const Status& why);
  void FinishPart(PostedOperation* part, const Status& outcome);
  /// Counts the operation as done, for the communicator and for the tenant.
  void Count(const MatchedOperation& operation);
  /// Counts a message in a pipe that has ended well.
  void CountMessage(uint64_t bytes);
  /// Charges the tenant for this many bytes more, until the communicator goes.
  Status Pay(int64_t bytes) override { return holdings_.memory.Add(bytes); }
  /// Puts a warning into the tenant's log, unless its process has been warned of this before.
  void WarnOnce(PostedOperation* part, const std::string& warning);

 private:
  void OnLocalDone(MatchedOperation* operation, const Status& outcome) override;

  InlineLimits InlineLimitsNow();
  size_t PlaceOf(int rank) const { return place_of_rank_[static_cast<size_t>(rank)]; }
  void PostCollective(PostedOperation* part);
  void PostPair(PostedOperation* part);
  bool PayForPair();
  void PostMessage(PostedOperation* message);
  void PostMessageHere(PostedOperation* message);
  void Copy(const Pipes::Match& match);
  void StartPair(MatchedOperation* operation);
  void StartNextPairs();
  void PostNextPairs();
  void LeaveLanes(MatchedOperation* operation);
  void NoteGap(const MatchedOperation& operation);
  void TellLooking();
  void TakeTime(const MatchedOperation& operation);
  void WatchDeadline(double seconds, const OperationTerms& granted);
  bool MayLaunch(MatchedOperation* operation);
  void LaunchLater();
  void Launch(MatchedOperation* operation);
  static Mismatch MismatchOf(const MatchedOperation& operation);
  void TellMismatch(const MatchedOperation& operation, const Status& error);
  bool IsOverDisagreement() const { return window_.start() > disagreed_at_; }
  Status FailureWith(const Status& why) const;
  void WarnOfTypes(const MatchedOperation& operation);
  void Decide(PostedOperation* part, const Status& outcome);
  void FailEverything(const Status& why);
  /// Fails these operations and parts: the first of them now, the others soon. Requires: nothing
  /// else refers to them any more.
  void Doom(std::vector<MatchedOperation*> operations, std::vector<PostedOperation*> parts,
            const Status& why);
  void FailDoomed();

  const CommunicatorServices services_;
  const uint64_t id_;
  uint32_t gang_ = 0;
  Job* job_ = nullptr;
  const std::string name_;
  std::string handle_;
  Tenant* const tenant_;
  CommunicatorHoldings holdings_;
  std::vector<Member*> members_;       // by rank
  std::vector<uint64_t> left_after_;   // by rank: collectives before it left; kStays: it has not
  std::vector<size_t> place_of_rank_;  // by rank: its place in MatchedOperation::parts
  size_t local_ranks_ = 0;
  State state_ = State::kReady;
  Status failure_;
  Status disagreement_;        ///< The last operation about which ranks have disagreed.
  uint64_t disagreed_at_ = 0;  ///< collectives_begun() with that operation.

  CollectiveWindow window_;
  PairMatcher pairs_;
  PaidInBatches paid_pairs_{PairMatcher::kPairBytes};  ///< Pairs of ranks in `pairs_`.
  OperationSet<MatchedOperation> matched_pairs_;       // both here; not both ready, or not in turn
  Pipes pipes_;                                        // between ranks of this host
  PaidInBatches paid_pipes_{Pipes::kPipeBytes};
  PairLanes<MatchedOperation*> pair_lanes_;
  std::vector<MatchedOperation*> next_pairs_;  ///< Ready ones whose turn may have come.
  bool next_pairs_posted_ = false;             ///< A call of StartNextPairs is posted.
  Doomed doomed_;
  bool doom_posted_ = false;    ///< A call of FailDoomed is posted.
  bool launch_posted_ = false;  ///< A call of LaunchReady is posted.
  OperationPool pool_;
  std::optional<CommunicatorTerms> own_terms_;  // of what was granted when they were asked for
  OperationTermsCache operation_terms_;         // by these
  DeadlineWatch deadlines_;
  LateReporter late_{this, &window_, &pairs_};
  WaitLister wait_lister_{this, &window_, &pairs_};
  GapEstimate collective_gap_;
  GapEstimate pair_gap_;
  uint64_t inline_operations_ = 0;  ///< When collective_gap_ was told last.

  LocalRunner local_;
  std::unique_ptr<OtherHosts> other_hosts_;
  std::unique_ptr<InlineSegment> inline_segment_;

  uint64_t operations_ = 0;
  uint64_t messages_ = 0;
  uint64_t bytes_ = 0;
  Lifetime lifetime_;
};

}  // namespace harmonaize::daemon

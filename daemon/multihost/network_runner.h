#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "daemon/cluster/messages/message.h"
#include "daemon/cluster/roster.h"
#include "daemon/communicator/operation_set.h"
#include "daemon/communicator/other_hosts.h"
#include "daemon/multihost/collective_history.h"
#include "daemon/multihost/host_group.h"
#include "daemon/multihost/host_services.h"
#include "daemon/multihost/leftovers.h"
#include "daemon/multihost/remote_pairs.h"

namespace harmonaize::daemon {

/// Carries out a communicator's operations with other hosts over the network, and tells the home
/// and hears from it how collectives stand and end. Thread: engine.
class NetworkRunner final : public OtherHosts {
 public:
  /// The services and the communicator must outlive the runner.
  NetworkRunner(const HostServices& services, Communicator* communicator, Roster roster);

  // OtherHosts.

  HostGroup& group() override { return group_; }
  uint64_t key() const override { return group_.roster().key; }
  bool is_home() const override { return group_.is_home(); }
  bool IsRemote(int rank) const override { return !group_.roster().IsLocal(rank); }
  bool executing() const override { return !running_.empty(); }
  void PostPair(PostedOperation* part) override { pairs_.Post(part); }
  void OnPairReady(PostedOperation* part) override { pairs_.OnReady(part); }
  void OnFirstPart(MatchedOperation* operation) override;
  bool MayLaunch(MatchedOperation* operation) override;
  void Launch(MatchedOperation* operation) override;
  void OnNetworkDone(MatchedOperation* operation) override;
  void NoteEnd(const MatchedOperation& operation, const Status& outcome) override;
  void OnPlanReady() override { pairs_.OnPlanReady(); }
  void FailFrom(int rank, uint64_t after, const Status& why) override;
  void TellLeft(int rank, uint64_t after) override;
  void TellEnd(bool revoked, const Status& why) override;
  void FailAll(const Status& why) override;
  void ReportLate(uint64_t now_ns, uint64_t late_after_ns) override;
  void ForEachWaitingPair(const std::function<void(PostedOperation*)>& call) const override {
    pairs_.ForEachWaiting(call);
  }
  void AddWaiting(uint64_t now_ns, WaitingOperations* waiting) const override;
  void OnMessage(transport::PeerId peer, const ClusterMessage& message) override;
  void OnPeerLost(transport::PeerId peer) override;

  // For HostGroup.

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

 private:
  Status Start(MatchedOperation* operation);
  void NoteStarted(MatchedOperation* operation);
  void EndNetwork(MatchedOperation* operation);
  void EndHere(MatchedOperation* operation);
  void Hold(MatchedOperation* operation);
  MatchedOperation* FindRunning(uint64_t sequence) const;
  MatchedOperation* TakeHeld(uint64_t sequence);
  ProgressMessage ProgressOf(uint64_t sequence) const;
  void ListAbsent(ProgressMessage* progress, const MatchedOperation* waiting) const;
  void OnBroken(const BrokenMessage& broken);
  void OnRankLeft(int rank, uint64_t sequence);
  void EndFrom(uint64_t sequence, const Status& why);
  void LoseHost(int host);
  void OnMessageAfterEnd(transport::PeerId peer, const ClusterMessage& message);
  bool OnMessageOfPair(transport::PeerId peer, const ClusterMessage& message);
  bool OnMessageAtHome(transport::PeerId peer, const ClusterMessage& message);
  void OnMessageOfHome(const ClusterMessage& message);
  bool IsFrom(transport::PeerId peer, int there, int here);
  void DropLeftovers();
  void ReportFilling(uint64_t now_ns, uint64_t late_after_ns);
  void TellSlow(uint64_t now_ns);
  /// Calls with each operation that was launched and has not ended for its ranks.
  template <typename Call>
  void ForEachBegun(Call&& call) const {
    for (MatchedOperation* operation : running_) call(operation);
    for (MatchedOperation* operation : held_) call(operation);
  }

  const HostServices& services_;
  Communicator* const communicator_;
  HostGroup group_;
  RemotePairs pairs_;
  OperationSet<MatchedOperation> running_;     // collectives and transfers
  std::vector<MatchedOperation*> held_;        // ended here; the home will say how it ends
  std::map<uint64_t, Status> early_verdicts_;  // by sequence, before any rank has come
  std::set<uint64_t> wanted_;                  // sequences that the home asked about
  CollectiveHistory history_;
  Leftovers leftovers_;
};

}  // namespace harmonaize::daemon

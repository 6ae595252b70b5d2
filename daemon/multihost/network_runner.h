#pragma once

#include <cstdint>
#include <functional>

#include "daemon/cluster/messages/message.h"
#include "daemon/cluster/roster.h"
#include "daemon/communicator/operation_set.h"
#include "daemon/communicator/other_hosts.h"
#include "daemon/multihost/collective_outcomes.h"
#include "daemon/multihost/host_group.h"
#include "daemon/multihost/host_services.h"
#include "daemon/multihost/leftovers.h"
#include "daemon/multihost/remote_pairs.h"
#include "daemon/multihost/remote_pipes.h"

namespace harmonaize::daemon {

/// Carries out a communicator's operations with other hosts over the network, and handles the
/// messages of these hosts about it. Thread: engine.
class NetworkRunner final : public OtherHosts {
 public:
  /// Requires: the services and the communicator outlive the runner.
  NetworkRunner(const HostServices& services, Communicator* communicator, Roster roster);

  // OtherHosts.

  HostGroup& group() override { return group_; }
  uint64_t key() const override { return group_.roster().key; }
  bool is_home() const override { return group_.is_home(); }
  bool IsRemote(int rank) const override { return !group_.roster().IsLocal(rank); }
  bool executing() const override {
    return outcomes_.any_running() || !transfers_.empty() || pairs_.ending() || pipes_.executing();
  }
  void PostPair(PostedOperation* part) override { pairs_.Post(part); }
  void OnPairReady(PostedOperation* part) override { pairs_.OnReady(part); }
  void PostMessage(PostedOperation* message) override { pipes_.Post(message); }
  Status ClosePipe(const PipeId& id) override { return pipes_.Close(id.pipe); }
  void OnFirstPart(MatchedOperation* operation) override { outcomes_.OnFirstPart(operation); }
  bool MayLaunch(MatchedOperation* operation) override;
  void Launch(MatchedOperation* operation) override;
  void OnNetworkDone(MatchedOperation* operation) override;
  void NoteEnd(const MatchedOperation& operation, const Status& outcome) override {
    outcomes_.NoteEnd(operation, outcome);
  }
  void OnPlanReady() override {
    pairs_.OnPlanReady();
    pipes_.OnPlanReady();
  }
  void OnTermsChanged() override;
  void FailFrom(int rank, uint64_t after, const Status& why) override;
  void TellLeft(int rank, uint64_t after) override;
  void TellEnd(bool revoked, const Status& why) override;
  void FailAll(const Status& why) override;
  void ReportLate(uint64_t now_ns, uint64_t late_after_ns) override;
  void LookAtSomePairs(size_t most, uint64_t now_ns,
                       const std::function<void(const WaitingPair&)>& call) override {
    pairs_.LookAtSome(most, now_ns, call);
  }
  size_t ForFirstPairs(size_t most,
                       const std::function<void(PostedOperation*)>& call) const override {
    return pairs_.ForFirst(most, call);
  }
  void AddWaiting(uint64_t now_ns, WaitingOperations* waiting) const override {
    outcomes_.AddWaiting(now_ns, waiting);
  }
  void ListUnderWay(uint64_t now_ns, uint64_t least_ns, CommunicatorWaits* waits) const override {
    outcomes_.ListUnderWay(now_ns, least_ns, waits);
    pairs_.ListWaits(now_ns, least_ns, waits);
  }
  void NotifyWaiting(uint64_t sequence, const std::string& notice) override {
    outcomes_.NotifyWaiting(sequence, notice);
  }
  void OnMessage(transport::PeerId peer, const ClusterMessage& message) override;
  void OnPeerLost(transport::PeerId peer) override;

  // For RemotePairs.

  Result<MatchedOperation*> StartTransfer(PostedOperation* part, HostPlan* plan, uint64_t number);
  void CancelTransfer(MatchedOperation* operation, const Status& why);
  /// Ends a transfer and returns its outcome; the operation goes back to the pool.
  Status EndTransfer(MatchedOperation* operation);

 private:
  Status Start(MatchedOperation* operation);
  void PayForGrowth(const MatchedOperation& operation);
  void EndNetwork(MatchedOperation* operation);
  void OnBroken(transport::PeerId peer, const BrokenMessage& broken);
  bool IsCredible(transport::PeerId peer, const LeftMessage& left) const;
  void OnRankLeft(int rank, uint64_t sequence);
  void EndFrom(uint64_t sequence, const Status& why);
  void LoseHost(int host);
  void OnMessageAfterEnd(transport::PeerId peer, const ClusterMessage& message);
  bool OnMessageOfPair(transport::PeerId peer, const ClusterMessage& message);
  bool OnMessageOfPipes(transport::PeerId peer, const ClusterMessage& message);
  bool IsOfPipes(transport::PeerId peer, int there, int here);
  bool OnMessageAtHome(transport::PeerId peer, const ClusterMessage& message);
  void OnMessageOfHome(const ClusterMessage& message);
  bool IsFrom(transport::PeerId peer, int there, int here);
  void DropLeftovers();

  const HostServices services_;  // group_ refers to it
  Communicator* const communicator_;
  HostGroup group_;
  RemotePairs pairs_;
  RemotePipes pipes_;
  CollectiveOutcomes outcomes_;
  OperationSet<MatchedOperation> transfers_;  // sends and receives under way
  Leftovers leftovers_;
  /// The collective under way in which ranks here copy private buffers; nullptr: none. One at a
  /// time, since a rank has words for one. Hosts begin them in one order, so none waits for
  /// another.
  const MatchedOperation* sliced_ = nullptr;
};

}  // namespace harmonaize::daemon

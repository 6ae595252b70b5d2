#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "daemon/cluster/messages/message.h"
#include "daemon/communicator/communicator_wait.h"
#include "daemon/communicator/pipe_id.h"
#include "daemon/communicator/waiting_operations.h"
#include "daemon/tenant/posted_operation.h"
#include "src/base/status.h"
#include "src/transport/transport.h"

namespace harmonaize::daemon {

class HostGroup;
struct MatchedOperation;

/// The side of a communicator that concerns other hosts: carries out its operations with them, and
/// agrees with them on how collectives end. A communicator of one host has none. Thread: engine.
class OtherHosts {
 public:
  virtual ~OtherHosts() = default;

  virtual HostGroup& group() = 0;
  /// The communicator's number among all hosts.
  virtual uint64_t key() const = 0;
  /// Returns whether the communicator's fate is decided here.
  virtual bool is_home() const = 0;
  virtual bool IsRemote(int rank) const = 0;
  /// Returns whether an operation with other hosts is being executed now, or some have yet to be
  /// told that they end.
  virtual bool executing() const = 0;

  // Operations.

  /// Takes in a send or a receive whose peer is on another host.
  virtual void PostPair(PostedOperation* part) = 0;
  virtual void OnPairReady(PostedOperation* part) = 0;
  /// Carries out a message in a pipe whose peer is on another host.
  virtual void PostMessage(PostedOperation* message) = 0;
  /// Closes a pipe to a rank of another host. Errors: kInvalidUsage if the tenant cannot pay for
  /// it.
  virtual Status ClosePipe(const PipeId& id) = 0;
  /// Notes that the first part of a collective has come. Another host may have decided its end
  /// already.
  virtual void OnFirstPart(MatchedOperation* operation) = 0;
  /// Returns whether a collective that all ranks here are ready for may begin. If not,
  /// Communicator::LaunchReady follows.
  virtual bool MayLaunch(MatchedOperation* operation) = 0;
  /// Carries out a collective on whose arguments the ranks here agree.
  virtual void Launch(MatchedOperation* operation) = 0;
  /// Notes that the network has carried out the operation, or given it up; see
  /// NetworkOperations::Start.
  virtual void OnNetworkDone(MatchedOperation* operation) = 0;
  /// Notes that an operation of the ranks here has ended, or is about to, with this outcome.
  virtual void NoteEnd(const MatchedOperation& operation, const Status& outcome) = 0;
  /// Notes that a plan has come, or will not come.
  virtual void OnPlanReady() = 0;
  /// Goes by the terms of now (Communicator::terms).
  virtual void OnTermsChanged() = 0;

  // Ends.

  /// Fails the operations in which others wait for a rank of this host that leaves after this many
  /// collectives.
  virtual void FailFrom(int rank, uint64_t after, const Status& why) = 0;
  /// Tells the other hosts that the rank has left.
  virtual void TellLeft(int rank, uint64_t after) = 0;
  /// Tells the other hosts that the communicator has ended.
  virtual void TellEnd(bool revoked, const Status& why) = 0;
  /// Fails all operations that are under way or wait.
  virtual void FailAll(const Status& why) = 0;

  // Ranks that are late.

  /// Reports ranks that have kept others waiting for longer than `late_after_ns`.
  virtual void ReportLate(uint64_t now_ns, uint64_t late_after_ns) = 0;
  /// A send or a receive that waits for its peer.
  struct WaitingPair {
    PostedOperation* part = nullptr;
    uint64_t since_ns = 0;
    bool for_data = false;  ///< The peer has posted its half, and its data does not come, or go.
  };
  /// Calls `call` with those of up to `most` sends and receives with other hosts that wait for
  /// their peers. Begins behind the ones that were looked at last.
  virtual void LookAtSomePairs(size_t most, uint64_t now_ns,
                               const std::function<void(const WaitingPair&)>& call) = 0;
  /// Calls `call` with those of up to `most` sends and receives with other hosts that wait for
  /// their peers. Returns how many others there are.
  virtual size_t ForFirstPairs(size_t most,
                               const std::function<void(PostedOperation*)>& call) const = 0;
  /// Adds the collectives that wait for ranks of other hosts.
  virtual void AddWaiting(uint64_t now_ns, WaitingOperations* waiting) const = 0;

  /// Adds operations that have been under way, or have waited for ranks of other hosts, for at
  /// least `least_ns`.
  virtual void ListUnderWay(uint64_t now_ns, uint64_t least_ns, CommunicatorWaits* waits) const = 0;
  /// Gives a notice to the ranks here that wait in a collective, and to observers.
  virtual void NotifyWaiting(uint64_t sequence, const std::string& notice) = 0;

  // What the cluster says.

  /// Handles a message about this communicator: from its home, or at the home from another host.
  virtual void OnMessage(transport::PeerId peer, const ClusterMessage& message) = 0;
  /// Handles the loss of a daemon, and with it of its ranks.
  virtual void OnPeerLost(transport::PeerId peer) = 0;
};

}  // namespace harmonaize::daemon

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/messages/message.h"
#include "daemon/cluster/roster.h"
#include "daemon/cluster/this_daemon.h"
#include "daemon/multihost/host_services.h"
#include "daemon/multihost/outcome_arbiter.h"
#include "daemon/multihost/plan_table.h"
#include "daemon/multihost/start_confirmation.h"
#include "daemon/plans/fabrics.h"
#include "daemon/runtime/lifetime.h"
#include "daemon/runtime/waiting_count.h"
#include "daemon/sharing/turn_gate.h"

namespace harmonaize::daemon {

class CollectiveOutcomes;
class Communicator;

/// What a communicator that spans hosts needs beyond one that does not: who is where, the plans,
/// and the ways to its home and to other hosts. For the engine's thread.
class HostGroup {
 public:
  HostGroup(const HostServices& services, Communicator* communicator, CollectiveOutcomes* outcomes,
            Roster roster);
  ~HostGroup();

  const Roster& roster() const { return roster_; }
  bool is_home() const { return roster_.home == kThisDaemon; }

  PlanTable& plans() { return plans_; }
  const PlanTable& plans() const { return plans_; }
  /// Through which its operations on this host go.
  TurnGate* gate() { return &gate_; }
  /// nullptr until it has come from the home.
  const KnownFabric* fabric() const;

  // The names of its operations' messages, alike at all hosts and no other's.

  static uint64_t CollectiveNumber(uint64_t key, uint64_t sequence);
  static uint64_t PairNumber(uint64_t key, int from, int to, uint64_t number);
  uint64_t CollectiveNumber(uint64_t sequence) const {
    return CollectiveNumber(roster_.key, sequence);
  }
  uint64_t PairNumber(int from, int to, uint64_t number) const {
    return PairNumber(roster_.key, from, to, number);
  }

  // What is said.

  void TellHome(const ClusterMessage& message);
  /// As if the home had told this host, later.
  void TellSelf(const ClusterMessage& message);
  /// To the home, which passes it on; without a home to all that were reached.
  void TellLeft(const LeftMessage& left);
  /// From the home to all other hosts.
  void TellHosts(const ClusterMessage& message, int except = -1);
  /// To the daemon of a rank.
  void TellHostOf(int rank, const ClusterMessage& message);
  /// Sees to a link with the daemon of a host; `done` may be called at once, and not at all once
  /// the communicator is gone. Errors: kRemoteError, of which nobody else has been told.
  void ReachHost(int host, std::function<void(const Status&)> done);
  /// To all daemons that were reached.
  void TellReached(const ClusterMessage& message);
  /// At the home: takes in what a host says of a collective.
  void OnProgress(int host, const ProgressMessage& progress);
  /// This host has begun a collective, see UnconfirmedStarts. `asks`: CollectiveOutcomes::OnAgreed
  /// follows as soon as all have; else when much has been begun.
  void NoteBegun(const BegunCollective& begun, bool asks);
  /// This host begins a collective that nobody has to agree on.
  void NoteOther(uint64_t sequence);
  /// Whether a collective that was noted may be called done here. Else it may at some later
  /// CollectiveOutcomes::OnAgreed.
  bool MayEnd() const { return unconfirmed_starts_.may_end(); }
  /// Tells the home what it has not been told.
  void TellBegun(bool asks = false);
  /// The home's word.
  void OnAgreed(uint64_t sequence) { unconfirmed_starts_.Agree(sequence); }
  /// At the home: what a host has begun.
  void OnBegun(int host, const BegunMessage& message);
  /// At the home: what is late.
  void ReportLate(uint64_t now_ns, uint64_t late_after_ns);
  /// Collectives from there on end without a verdict, at all hosts.
  void EndFrom(uint64_t sequence);
  /// Learns that a rank's daemon is this peer. False: it is another.
  bool NotePeer(int rank, transport::PeerId peer);

  /// Drops what came, or will, of an operation that has ended badly.
  void Forget(uint64_t number);
  /// The same for what a peer sent of a communicator's collectives, up to as many as it has begun.
  static void DropCollectives(transport::Transport* transport, transport::PeerId peer, uint64_t key,
                              uint64_t first, uint64_t begun);

 private:
  bool HasLeft(int host) const;
  void ActOn(uint64_t sequence, const OutcomeArbiter::Outcome& outcome);
  void LookAgain();
  void CountOpenCases();
  void CountUntold();

  const HostServices& services_;
  Communicator* const communicator_;
  CollectiveOutcomes* const outcomes_;
  Roster roster_;
  PlanTable plans_;
  TurnGate gate_;
  std::unique_ptr<OutcomeArbiter> arbiter_;
  std::unique_ptr<StartConfirmations> confirmations_;
  UnconfirmedStarts unconfirmed_starts_;
  WaitingHold undecided_;  ///< While an operation's outcome is not decided.
  WaitingHold untold_;     ///< While there is something to tell.
  Lifetime lifetime_;
};

}  // namespace harmonaize::daemon

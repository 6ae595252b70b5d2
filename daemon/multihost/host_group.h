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
#include "daemon/communicator/portions.h"
#include "daemon/multihost/host_services.h"
#include "daemon/multihost/outcome_arbiter.h"
#include "daemon/multihost/plan_table.h"
#include "daemon/multihost/start_confirmation.h"
#include "daemon/plans/fabrics.h"
#include "daemon/quota/paid_in_batches.h"
#include "daemon/runtime/lifetime.h"
#include "daemon/runtime/waiting_count.h"
#include "daemon/sharing/turn_gate.h"

namespace harmonaize::daemon {

class CollectiveOutcomes;
class Communicator;

/// What a communicator needs if it spans hosts: which rank is on which host, the plans, and the
/// ways to its home and to other hosts. Thread: engine.
class HostGroup {
 public:
  HostGroup(const HostServices& services, Communicator* communicator, CollectiveOutcomes* outcomes,
            Roster roster);
  ~HostGroup();

  const Roster& roster() const { return roster_; }
  bool is_home() const { return roster_.home == kThisDaemon; }

  PlanTable& plans() { return plans_; }
  const PlanTable& plans() const { return plans_; }
  /// The gate through which its operations on this host go.
  TurnGate* gate() { return &gate_; }
  /// The fabric that its plans are made for; nullptr until it has come from the home.
  const KnownFabric* fabric() const;

  // The names of its operations' messages: the same at all hosts, and different from those of other
  // operations.

  static uint64_t CollectiveNumber(uint64_t key, uint64_t sequence);
  static uint64_t PairNumber(uint64_t key, int from, int to, uint64_t number);
  /// The number of a pipe's messages, in both directions.
  static uint64_t PipeNumber(uint64_t key, uint32_t pipe);
  /// The number of the messages by which a rank's daemon tells of messages in pipes.
  static uint64_t NotesNumber(uint64_t key, int rank);
  uint64_t CollectiveNumber(uint64_t sequence) const {
    return CollectiveNumber(roster_.key, sequence);
  }
  uint64_t PairNumber(int from, int to, uint64_t number) const {
    return PairNumber(roster_.key, from, to, number);
  }

  // What is said. A communicator breaks, a moment later, if its tenant has too much to say to a
  // daemon that does not keep up.

  /// Sends to a daemon.
  void Tell(transport::PeerId peer, const ClusterMessage& message);
  void TellHome(const ClusterMessage& message);
  /// Sends a message to this host, later, as if the home had.
  void TellSelf(const ClusterMessage& message);
  /// Sends to the home, which passes it on; without a link to the home, to all daemons that were
  /// reached.
  void TellLeft(const LeftMessage& left);
  /// Sends from the home to all other hosts, but for host `except`.
  void TellHosts(const ClusterMessage& message, int except = -1);
  /// Sends to the daemon of a rank, and reaches it before.
  void TellHostOf(int rank, const ClusterMessage& message);
  /// Makes a link with the daemon of a host. `done` may be called at once, and not at all once the
  /// communicator is gone. It gets kRemoteError if the daemon cannot be reached, of which nobody
  /// else has been told.
  void ReachHost(int host, std::function<void(const Status&)> done);
  /// Sends to all daemons that were reached.
  void TellReached(const ClusterMessage& message);
  /// At the home: takes in what a host says of a collective.
  void OnProgress(int host, const ProgressMessage& progress);
  /// Notes that this host has begun a collective, see UnconfirmedStarts.
  /// CollectiveOutcomes::OnAgreed follows: if `asks`, as soon as all hosts have begun it, else when
  /// much has been begun.
  void NoteBegun(const BegunCollective& begun, bool asks);
  /// Notes that this host begins a collective that needs no agreement.
  void NoteOther(uint64_t sequence);
  /// Returns whether a collective that was noted may be called done here. If not, it may at some
  /// later CollectiveOutcomes::OnAgreed.
  bool MayEnd() const { return unconfirmed_starts_.may_end(); }
  /// Tells the home of the begun collectives that it has not been told of.
  void TellBegun(bool asks = false);
  /// Takes in the home's word that all hosts agree up to this collective.
  void OnAgreed(uint64_t sequence) { unconfirmed_starts_.Agree(sequence); }
  /// At the home: takes in what a host has begun.
  void OnBegun(int host, const BegunMessage& message);
  /// Tells the home what it has not been told; at the home, also reports what is late.
  void ReportLate(uint64_t now_ns, uint64_t late_after_ns);
  /// Notes that the collectives from this one on end without a verdict, at all hosts.
  void EndFrom(uint64_t sequence);
  /// Learns that a rank's daemon is this peer. Returns false if it is another one.
  bool NotePeer(int rank, transport::PeerId peer);
  /// Returns whether the peer may speak for a rank: it is the home or the rank's daemon. Where the
  /// rank's daemon is not known, any peer may be it that is not known as another host's. The home
  /// knows all daemons, the others those that they have reached, or that have sent to them.
  bool MaySpeakFor(int rank, transport::PeerId peer) const;
  /// Adds ranks of a host to `ranks`, until these are `most`.
  void AddRanksOf(int host, size_t most, std::vector<int>* ranks) const;
  /// Returns whether the peer may be the home or the daemon of any host, as far as is known.
  bool MayBelong(transport::PeerId peer) const;

  /// Breaks the communicator a moment later, where the caller is in the middle of something.
  void BreakSoon(const Status& why);

  /// Drops the messages that have come, or will come, of an operation that has ended badly.
  void Forget(uint64_t number);
  /// Does so for an operation whose messages come from the daemon of this rank alone.
  void ForgetAt(int rank, uint64_t number);
  /// Drops the messages of a peer for a communicator's collectives from `first` on, up to as many
  /// as it has begun.
  static void DropCollectives(Cluster* cluster, transport::PeerId peer, uint64_t key,
                              uint64_t first, uint64_t begun);

 private:
  /// Memory of the daemon that a message takes until its host is reached, in bytes.
  static constexpr int64_t kUnreachedBytes = 512;

  bool HasLeft(int host);
  void ActOn(uint64_t sequence, const OutcomeArbiter::Outcome& outcome);
  void LookAgainSoon();
  void LookAgain();
  bool LookAtOneCase();
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
  std::vector<int> first_staying_;  ///< By host: no rank of it before this one has stayed.
  int hosts_gone_ = 0;              ///< When the open cases were last looked at.
  bool look_posted_ = false;        ///< A call of LookAgain is posted.
  uint64_t look_from_ = 0;          ///< The collectives before have been looked at again.
  Portions looks_;
  UnconfirmedStarts unconfirmed_starts_;
  WaitingHold undecided_;      ///< Held while an operation's outcome is not decided.
  WaitingHold untold_;         ///< Held while there is something to tell.
  bool break_posted_ = false;  ///< The communicator breaks in a moment.
  int64_t unreached_ = 0;      ///< Messages that wait until their host is reached.
  PaidInBatches paid_unreached_{kUnreachedBytes};
  Lifetime lifetime_;
};

}  // namespace harmonaize::daemon

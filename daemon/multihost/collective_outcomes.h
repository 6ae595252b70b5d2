#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <set>

#include "daemon/cluster/messages/message.h"
#include "daemon/communicator/communicator_wait.h"
#include "daemon/communicator/matched_operation.h"
#include "daemon/communicator/portions.h"
#include "daemon/communicator/waiting_operations.h"
#include "daemon/multihost/collective_history.h"
#include "daemon/multihost/operations_by_sequence.h"
#include "daemon/runtime/waiting_count.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

class Communicator;
class HostGroup;

/// Tracks how a communicator's collectives stand and end on this host. It tells the home of those
/// that fail or take long, and the home says how these end at all hosts. A tenant may have tens of
/// thousands, so what concerns many of them is done in portions, between which the engine serves
/// other tenants. Thread: engine.
class CollectiveOutcomes {
 public:
  /// Requires: all of them outlive this object.
  CollectiveOutcomes(WaitingCount* waiting, Communicator* communicator, HostGroup* group);

  // Collectives here.

  /// Notes that the first part of a collective has come. Another host may have decided its end
  /// already.
  void OnFirstPart(MatchedOperation* operation);
  /// Notes that the network carries out a collective from now on.
  /// Does not throw after MakeRoom.
  void AddRunning(MatchedOperation* operation) { running_.Add(operation); }
  void MakeRoom() { running_.MakeRoom(); }
  /// Notes that the network does not any more, and, if EndFrom concerns the collective, how it
  /// ends.
  void RemoveRunning(MatchedOperation* operation);
  bool any_running() const { return !running_.empty(); }
  /// Keeps a collective that has failed here until the home says how it ends.
  void HoldFailed(MatchedOperation* operation) { Hold(operation, kFailed); }
  /// Notes that a collective is done here. It has succeeded once all hosts are known to have begun
  /// the same, or, if it has elements, once enough of the earlier ones are known to
  /// (HostGroup::MayEnd).
  void EndHere(MatchedOperation* operation);
  /// Notes that an operation of the ranks here has ended, or is about to, with this outcome.
  void NoteEnd(const MatchedOperation& operation, const Status& outcome);
  /// Ends the begun collectives from this one on early, some now and the others soon: they cannot
  /// be carried out. Requires: none of them begins any more.
  void EndFrom(uint64_t sequence, const Status& why);
  /// Ends all collectives early, some now and the others soon. Requires: none begins any more.
  void FailAll(const Status& why);

  // What the home is told, and says.

  /// Tells the home where this host stands with a collective.
  void TellProgress(uint64_t sequence);
  /// Does that if the home has asked, and has had no final answer.
  void TellIfWanted(uint64_t sequence) {
    if (wanted_.contains(sequence)) TellProgress(sequence);
  }
  /// Takes in the home's word how a collective ends.
  void OnVerdict(uint64_t sequence, const Status& verdict);
  /// Takes in the home's word that all hosts have begun the same collectives up to this one, see
  /// StartConfirmations.
  void OnAgreed(uint64_t sequence);
  /// Takes in the home's word that ranks keep a collective waiting.
  void OnLate(const LateMessage& late);

  // Ranks that are late.

  /// Tells the home of ranks that do not get on, and of collectives that take long.
  void ReportLate(uint64_t now_ns, uint64_t late_after_ns);
  /// Adds the collectives that wait for ranks of other hosts.
  void AddWaiting(uint64_t now_ns, WaitingOperations* waiting) const;
  /// Adds the first collectives that began at least `least_ns` ago.
  void ListUnderWay(uint64_t now_ns, uint64_t least_ns, CommunicatorWaits* waits) const;
  /// Gives a notice to the ranks here that wait in a collective, and to observers.
  void NotifyWaiting(uint64_t sequence, const std::string& notice);

 private:
  /// Why a collective is held that has ended here.
  enum Held {
    kFailed,      ///< The home will say how it ends.
    kDone,        ///< It waits until enough of the earlier ones are known to have begun.
    kNoElements,  ///< It is done, and waits until all hosts are known to have begun it.
  };
  /// Collectives of which some have not been told yet that they end.
  struct Ending {
    uint64_t next = 0;    ///< The ones before have been told.
    uint64_t before = 0;  ///< These and later ones end otherwise.
    Status why;
    bool broken = false;  ///< The communicator ends.
  };

  void Hold(MatchedOperation* operation, Held why);
  MatchedOperation* FindHeld(uint64_t sequence) const;
  MatchedOperation* TakeHeld(uint64_t sequence);
  ProgressMessage ProgressOf(uint64_t sequence) const;
  void ListAbsent(ProgressMessage* progress, const MatchedOperation* waiting) const;
  void ReportFilling(MatchedOperation* operation, uint64_t now_ns, uint64_t late_after_ns);
  bool TellSlow(MatchedOperation* operation, uint64_t now_ns);
  void Want(uint64_t sequence);

  // Pieces of work that portions_ does.

  bool DoOne();
  void EndOne();
  void EndRunning(MatchedOperation* operation, const Ending& ending);
  MatchedOperation* FirstHeldFrom(uint64_t sequence) const;
  bool SettleOneDone();

  WaitingCount* const waiting_;
  Communicator* const communicator_;
  HostGroup* const group_;
  OperationsBySequence running_;
  std::array<OperationsBySequence, 3> held_;   // by Held
  std::map<uint64_t, Status> early_verdicts_;  // by sequence, before any rank has come
  std::set<uint64_t> wanted_;                  // sequences that the home asked about
  CollectiveHistory history_;
  std::deque<Ending> endings_;       // in the order in which they began
  uint64_t ends_from_ = UINT64_MAX;  // collectives from this one on end early
  Status ends_why_;
  uint64_t agreed_end_ = 0;  // all hosts have begun the collectives before this one
  Portions portions_;
};

}  // namespace harmonaize::daemon
